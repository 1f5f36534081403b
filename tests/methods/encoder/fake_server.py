"""A server that answers as a language model would, in a thread of the test."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


def completion(yes):
    """A chat completion as vLLM gives it, in which yes has this probability."""
    words = [("Yes", yes * 0.5), ("yes", yes * 0.3), (" no", (1 - yes) * 0.8), ("maybe", 0.1)]
    top = [{"token": word, "logprob": float(np.log(share))} for word, share in words]
    message = {"role": "assistant", "content": "Yes"}
    choice = {"message": message, "logprobs": {"content": [{"token": "Yes", "top_logprobs": top}]}}
    return {"choices": [choice], "usage": {"prompt_tokens": 30, "completion_tokens": 1}}


def share(request):
    """The probability that the server gives: it depends on the texts alone."""
    content = request["messages"][1]["content"]
    return 0.05 + 0.9 * (sum(content.encode()) % 97) / 97


class Fake(ThreadingHTTPServer):
    """trouble: what the next requests meet instead of an answer: a status with headers, a body, or ``hang``."""

    request_queue_size = 256
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.trouble, self.seen, self.delay_s, self.lock = [], [], 0.0, threading.Lock()
        self.answer = lambda request: completion(share(request))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            trouble = self.server.trouble.pop(0) if self.server.trouble else None
            self.server.seen.append((self.path, request, self.headers.get("Authorization")))
        time.sleep(self.server.delay_s)
        status, headers, body = 200, {}, json.dumps(self.server.answer(request)).encode()
        if trouble == "hang":
            self.close_connection = True
            return
        if isinstance(trouble, tuple):
            status, headers = trouble
            body = b'{"error": "trouble"}'
        elif isinstance(trouble, bytes):
            body = trouble
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)
