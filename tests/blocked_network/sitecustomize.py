"""No test reaches the network: loaded by every Python process of the tests through PYTHONPATH."""

import socket

_connect = socket.socket.connect


def _guarded(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"the network is blocked in tests: {address[0]}")
    return _connect(self, address)


socket.socket.connect = _guarded
