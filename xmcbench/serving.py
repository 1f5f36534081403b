"""A model behind HTTP: documents are posted, labels with scores come back as JSON.

    POST /   {"documents": ["a text", ...], "k": 5}, or as text/plain a document in each line and k in the query

answers {"model": ..., "documents": [[{"uid": ..., "label": ..., "score": ...}, ...], ...]}. Errors are {"error": ...}
with the status 400 for a request that cannot be read, 404 for another path, 413 for a request that is too large, and
500 where the method fails; and the page of the web server with 501 for methods of HTTP other than POST and GET.
There is no authentication, so a server listens on this machine only, unless it is told otherwise.
"""

from __future__ import annotations

import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from threading import Lock
from typing import Annotated, Any
from urllib.parse import parse_qs

import msgspec
import numpy as np
from msgspec import Meta, Struct

from xmcbench.analysis.rankings import check_k
from xmcbench.errors import UsageError, XmcbenchError, summarize
from xmcbench.models import Model

#: Bytes of a request at most, and seconds that a client may take to send it.
MOST_BYTES, _TIMEOUT_S = 16 << 20, 60
#: A score at most: a first one may be infinite, and JSON has no such number.
_LARGEST = float(np.finfo(np.float32).max)


class _Request(Struct, frozen=True, forbid_unknown_fields=True):
    """A request in JSON."""

    documents: list[str]
    k: Annotated[int, Meta(ge=1, le=100)] | None = None


class _Refused(Exception):
    """A request that is not answered."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Server(ThreadingHTTPServer):
    """A server of one model. It answers several clients, and the model predicts for one at a time."""

    daemon_threads = True

    def __init__(self, model: Model, host: str = "127.0.0.1", port: int = 0, k: int = 5) -> None:
        """port: 0 for any free one. k: labels of a document where a request has no number. Raises UsageError where the
        address cannot be had, and for a number of labels that cannot be suggested."""
        check_k(k)
        self.model, self.lock, self.k = model, Lock(), k
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError, TypeError, UnicodeError) as error:
            raise UsageError(f"cannot listen on {host}:{port}: {error}", "choose another --serve or --host") from None

    @property
    def address(self) -> str:
        """The URL of the server."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a broken connection in one line."""
        print(f"xmcbench: {client_address[0]}: {summarize(sys.exception() or Exception())}", file=sys.stderr)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S

    def do_POST(self) -> None:
        """Answer with the labels of the documents."""
        try:
            asked = self._read()
            with self.server.lock:
                found = self.server.model.suggest(asked.documents, asked.k or self.server.k) if asked.documents else ()
            labels: list[list[dict[str, object]]] = [[] for _ in asked.documents]
            for row, _, score, uid, text in found:  # lists of texts have their numbers as uids
                labels[int(row)].append({"uid": uid, "label": text, "score": min(score, _LARGEST)})
            self._answer(HTTPStatus.OK, {"model": self.server.model.facts.name, "documents": labels})
        except _Refused as refused:
            self.close_connection = True  # what was not read of the body would be taken for the next request
            self._answer(refused.status, {"error": refused.reason})
        except XmcbenchError as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)})
        except OSError:
            raise  # the client went away
        except Exception as error:  # a method can raise anything
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": summarize(error)})

    def do_GET(self) -> None:
        """Answer how to ask."""
        self.close_connection |= "Content-Length" in self.headers or "Transfer-Encoding" in self.headers  # not read
        known = msgspec.to_builtins(msgspec.structs.replace(self.server.model.facts, files=()))
        try:
            self._read_query()
            self._answer(HTTPStatus.OK, {"post": {"documents": ["a text"], "k": self.server.k}, "model": known})
        except _Refused as refused:
            self._answer(refused.status, {"error": refused.reason})

    def _read_query(self) -> str:
        path, _, query = self.path.partition("?")
        if path != "/":
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is only /, and no {path}")
        return query

    def _read(self) -> _Request:
        query = self._read_query()
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _Refused(HTTPStatus.BAD_REQUEST, "the request has no Content-Length")
        # A number of thousands of digits is no int.
        if len(length) > len(str(MOST_BYTES)) or int(length) > MOST_BYTES:
            reason = f"the request has {length[:20]} bytes; at most {MOST_BYTES:,} are read"
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise _Refused(HTTPStatus.BAD_REQUEST, f"the request ended after {len(body):,} of {int(length):,} bytes")
        try:
            # Without the header, the type would be that of text.
            is_text = "Content-Type" in self.headers and self.headers.get_content_type() == "text/plain"
            asked = parse_qs(query, keep_blank_values=True)
            if unknown := sorted(asked.keys() - ({"k"} if is_text else set())):
                raise ValueError(f"the address has {unknown[0]}, which is not read there")
            if is_text:
                k = asked.get("k", [None])[-1]
                # As lines of a file: other signs at which str.splitlines splits are part of a text.
                lines = [line.removesuffix("\n") for line in StringIO(body.decode("utf-8-sig"), newline=None)]
                return msgspec.convert({"documents": lines, "k": k}, _Request, strict=False)
            return msgspec.json.decode(body, type=_Request)
        except (ValueError, RecursionError) as error:
            hint = 'post {"documents": ["a text"], "k": 5}, or lines of text as text/plain'
            raise _Refused(HTTPStatus.BAD_REQUEST, f"{error}; {hint}") from None

    def _answer(self, status: HTTPStatus, content: dict[str, object]) -> None:
        body = msgspec.json.encode(content) + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - its name in the base class
        """Write nothing about requests: documents can be private."""
