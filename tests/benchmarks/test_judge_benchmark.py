"""Judgments through a server: 64 requests at once against one at a time, to a server that takes 100 ms to answer.

The bar: 10,000 judgments come at 20 times the rate of one at a time. The server is another process of this machine.
"""

import subprocess
import sys
import time

import pytest

from xmcbench.methods.rerank.judges import Server

BAR, MANY, FEW, AT_ONCE = 20, 10_000, 100, 64

SERVER = """
import json, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
BODY = json.dumps({"choices": [{"message": {"content": "yes"}}]}).encode()
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    def log_message(self, *_): pass
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.1)
        head = f"HTTP/1.1 200 OK\\r\\nContent-Length: {len(BODY)}\\r\\n\\r\\n".encode()
        self.wfile.write(head + BODY)
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture
def url():
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        process.terminate()


def rate(url, number, at_once):
    pairs = [(f"document {place}", "label") for place in range(number)]
    begin = time.perf_counter()
    assert len(dict(Server(url, "judge", None, at_once, None).judge(pairs))) == number
    return number / (time.perf_counter() - begin)


@pytest.mark.benchmark(group="judgments")
def test_many_requests_at_once(benchmark, url):
    alone = rate(url, FEW, 1)
    together = benchmark.pedantic(rate, args=(url, MANY, AT_ONCE), rounds=1)
    benchmark.extra_info.update(alone=alone, together=together)
    print(
        f"\n{alone:.1f} judgments per second one at a time, {together:.0f} at {AT_ONCE}: {together / alone:.1f} times"
    )
    assert together / alone >= BAR
