"""A model behind HTTP."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from threading import Thread

import numpy as np
import pytest

import xmcbench
from xmcbench import Model, Options, TopK, UsageError
from xmcbench.serving import MOST_BYTES, Server


@pytest.fixture
def model(tiny, tmp_path):
    return xmcbench.fit(tiny, "tfidf", tmp_path / "model", options=Options(tmp_path / "runs"))


@pytest.fixture
def server(model):
    with Server(model) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def ask(server):
    """Send a request: returns the status and the JSON of the answer."""

    def send(body, path="/", verb="POST", **headers):
        connection = HTTPConnection(*server.server_address[:2], timeout=20)
        connection.request(verb, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        return answer.status, content

    return send


def test_labels_are_answered_for_posted_documents(ask):
    status, found = ask(json.dumps({"documents": ["about the bridge", "", "the engine"], "k": 1}))
    assert (status, found["model"]) == (200, "TF-IDF")
    assert [[label["uid"] for label in labels] for labels in found["documents"]] == [
        ["label-bridge"],
        [],
        ["label-engine"],
    ]
    assert found["documents"][0][0].keys() == {"uid", "label", "score"}
    lines = "about the bridge\nüber the engine\n".encode()
    status, found = ask(lines, "/?k=2", Content_Type="text/plain; charset=utf-8")
    assert (status, [len(labels) for labels in found["documents"]]) == (200, [2, 2])
    assert ask('{"documents": []}') == (200, {"model": "TF-IDF", "documents": []})
    status, found = ask(None, verb="GET")
    assert (status, found["model"]["method"], found["post"]["k"]) == (200, "tfidf", 5)
    assert ask(None, "/?a=1", verb="GET") == (status, found)
    status, found = ask(None, "/favicon.ico", verb="GET")
    assert (status, found) == (404, {"error": "there is only /, and no /favicon.ico"})


@pytest.mark.parametrize(
    ("body", "path", "headers", "status", "said"),
    [
        ("{", "/", {}, 400, "truncated"),
        ('["a text"]', "/", {}, 400, 'post {"documents": ["a text"], "k": 5}'),
        ('{"documents": ["a"], "k": 0}', "/", {}, 400, "k"),
        ('{"documents": ["a"], "top": 5}', "/", {}, 400, "top"),
        (b'{"documents": ["\xff"]}', "/", {}, 400, "utf-8"),
        (b"\xff", "/", {"Content_Type": "text/plain"}, 400, "utf-8"),
        ("a text", "/?k=many", {"Content_Type": "text/plain"}, 400, "k"),
        ("a text", "/?n=1", {"Content_Type": "text/plain"}, 400, "the address has n"),
        ("a text", "/?k=1&n=", {"Content_Type": "text/plain"}, 400, "the address has n"),
        ('{"documents": ["a"]}', "/?k=1", {}, 400, "the address has k"),
        ("", "/", {"Content_Length": "-1"}, 400, "no Content-Length"),
        ("", "/", {"Content_Length": "9" * 5000}, 413, "at most 16,777,216 are read"),
        ("", "//[/", {}, 404, "there is only /"),
        ("", "/", {"Content_Length": str(MOST_BYTES + 1)}, 413, "at most 16,777,216 are read"),
        ('{"documents": ["a"]}', "/labels", {}, 404, "no /labels"),
    ],
)
def test_a_bad_request_is_one_error(ask, body, path, headers, status, said):
    found, answer = ask(body, path, **headers)
    assert (found, answer.keys()) == (status, {"error"})
    assert said in answer["error"]
    assert ask('{"documents": []}')[0] == 200, "the server goes on"


def test_a_line_of_text_is_a_document(ask):
    """As in a file: a form feed, or a line separator of Unicode, is part of a text."""
    body = "the engine\x0cof a\u2028train\r\n\nthe bridge".encode()
    status, found = ask(body, Content_Type="text/plain")
    assert (status, [bool(labels) for labels in found["documents"]]) == (200, [True, False, True])
    assert ask(b"", Content_Type="text/plain") == (200, {"model": "TF-IDF", "documents": []})
    marked, plain = (ask(mark + b"engine", Content_Type="text/plain") for mark in (b"\xef\xbb\xbf", b""))
    assert marked == plain


def test_a_request_that_ends_early_is_refused(server):
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection(server.server_address[:2], timeout=20) as connection:
        connection.sendall(head + b"the engine")
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"ended after 10 of 1,000 bytes" in answer


def test_a_body_that_is_not_read_is_no_request(server):
    inner = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    for first in (b"GET / HTTP/1.1", b"POST /labels HTTP/1.1"):
        with socket.create_connection(server.server_address[:2], timeout=20) as connection:
            connection.sendall(first + b"\r\nContent-Length: %d\r\n\r\n" % len(inner) + inner)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        assert answer.count(b"HTTP/1.1 ") == 1


def test_a_server_has_its_own_number_of_labels(model):
    with Server(model, k=2) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        connection = HTTPConnection(*server.server_address[:2], timeout=20)
        connection.request("POST", "/", '{"documents": ["the engine, the bridge and the desert"]}')
        answer = json.loads(connection.getresponse().read())
        connection.close()
        server.shutdown()
        thread.join()
    assert [len(labels) for labels in answer["documents"]] == [2]
    with pytest.raises(UsageError, match="k 0 must be in"):
        Server(model, k=0)
    with pytest.raises(UsageError, match="cannot listen on"):
        Server(model, host="ü..b")


def test_an_error_of_the_method_is_answered(ask, model, monkeypatch):
    def fail(*_):
        raise RuntimeError("no luck")

    monkeypatch.setattr(type(model.method), "predict", fail)
    assert ask('{"documents": ["a"]}') == (500, {"error": "RuntimeError: no luck"})


def test_an_infinite_score_is_the_largest_number(ask, model, monkeypatch):
    """JSON has no infinity."""

    def predict(_, texts, k):
        return TopK.from_scores(np.array([[np.inf, 1.0] + [0.0] * (len(model.labels) - 2)] * len(texts), np.float32), k)

    monkeypatch.setattr(type(model.method), "predict", predict)
    _, found = ask('{"documents": ["a"], "k": 2}')
    assert [label["score"] for label in found["documents"][0]] == [float(np.finfo(np.float32).max), 1.0]


def test_only_this_machine_is_listened_to(server, model):
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/"
    with pytest.raises(UsageError, match="cannot listen on 127.0.0.1"):
        Server(model, port=server.server_port)


def test_the_command_serves_until_it_is_interrupted(model, tmp_path):
    # A shell ignores Ctrl-C in what it starts in the background, tests included.
    obeys = ["env", "--default-signal=INT"]
    command = [*obeys, sys.executable, "-m", "xmcbench", "suggest", "--model", "model", "--serve", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        port = int(re.search(r"http://127.0.0.1:(\d+)/", process.stdout.readline())[1])
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("POST", "/", '{"documents": ["the engine"], "k": 1}')
        answer = json.loads(connection.getresponse().read())
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
    assert answer["documents"][0][0]["label"] == "the engine"
    (found,) = Model.load(tmp_path / "model").suggest(["the engine"], 1)
    assert answer["documents"][0][0]["score"] == found[2]


def test_flags_that_do_nothing_are_refused(inside, model, tmp_path):
    (tmp_path / "new.txt").write_text("the engine\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "one.txt").write_text("the engine\n")
    words = ("suggest", "--model", "model")
    for more, said in (
        (("--documents", "more", "--out", "more/one.txt", "--overwrite"), "one.txt is read, and would be replaced"),
        ((), "--model needs --documents or --serve"),
        (("--documents", "new.txt", "--host", "0.0.0.0"), "--host is for --serve"),
        (("--documents", "new.txt", "--serve", "0"), "--serve takes its documents from requests"),
        (("--documents", "new.txt", "--dataset", "tiny"), "--dataset does nothing with --model"),
        (("--documents", "new.txt", "--set", "tfidf.ngrams=1"), "--set does nothing with --model"),
        (("--documents", "new.txt", "--force"), "--force does nothing with --model"),
        (("--documents", "new.csv", "--columns", "text=body"), "--documents 'new.csv?text=COLUMN&uid=COLUMN')"),
        (("--documents", "new.txt", "--method", "tfidf"), "not allowed with"),
        (("--serve", "70000"), "is not a port"),
        (("--serve", "0", "--overwrite"), "--serve takes its documents from requests"),
        (("--documents", "new.txt", "--out", "new.txt", "--overwrite"), "new.txt is read, and would be replaced"),
        (("--documents", "new.txt", "--out", "model/model.json", "--overwrite"), "is read, and would be replaced"),
        (("--documents", "new.txt", "--threshold", "nan"), "'nan' is not a number"),
    ):
        ended = inside(*words, *more)
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    words = ("suggest", "--method", "tfidf", "--dataset", "tiny")
    assert "--out is required with --method" in inside(*words).stderr
    assert "--serve is for --model" in inside(*words, "--serve", "0").stderr
    ended = inside("suggest", "--model", "model", "--documents", "new.txt", "--k", "1", "--out", "labels.tsv")
    assert "labels.tsv: TF-IDF, zero-shot (no pairs), 1 document\n" in ended.stdout
    assert (tmp_path / "labels.tsv").read_text().splitlines()[1].split("\t")[3] == "label-engine"
    assert (
        "already exists"
        in inside("suggest", "--model", "model", "--documents", "new.txt", "--out", "labels.tsv").stderr
    )


def test_a_note_says_which_columns_documents_have(inside, model, tmp_path):
    (tmp_path / "new.csv").write_text("ticket,body\nt7,the engine\n")
    for place, said, uid in (("new.csv", "text=body", "0"), ("new.csv?uid=ticket", "uid=ticket, text=body", "t7")):
        ended = inside("suggest", "--model", "model", "--documents", place, "--k", "1")
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr == f"xmcbench: note: columns of new.csv: {said}\n"
        assert ended.stdout.splitlines()[-1].split()[0] == uid


def test_a_port_in_use_is_one_error(inside, model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = inside("suggest", "--model", "model", "--serve", taken.getsockname()[1])
    assert (ended.returncode, "cannot listen on 127.0.0.1" in ended.stderr) == (2, True)


def test_another_source_is_noted(inside, model, tmp_path):
    path = tmp_path / "model" / "model.json"
    path.write_text(path.read_text().replace(model.facts.source_sha256, "0" * 64))
    (tmp_path / "new.txt").write_text("the engine\n")
    ended = inside("suggest", "--model", "model", "--documents", "new.txt")
    assert (ended.returncode, "was trained by another source of tfidf" in ended.stderr) == (0, True)
