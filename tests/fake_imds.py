"""An instance metadata service, version 2, on the loopback: a real HTTP server with switches for its faults."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeImds:
    """`entries`: path below /latest/meta-data/ → text. `failures`: statuses for the next requests, in order.
    `log`: what was asked, as "METHOD path status"."""

    def __init__(self, entries: dict[str, str]) -> None:
        self.entries = entries
        self.failures: list[int] = []
        self.tokens = {"token-1"}
        self.log: list[str] = []
        self.url = ""

    def answer(self, method: str, path: str, token: str | None, lifetime: str | None) -> tuple[int, str]:
        if self.failures:
            return self.failures.pop(0), "failure"
        if path == "/latest/api/token":
            if method != "PUT" or lifetime is None:
                return 400, "no ttl"
            self.tokens.add(f"token-{len(self.tokens) + 1}")
            return 200, f"token-{len(self.tokens)}"
        if token not in self.tokens:
            return 401, "version 1 is off"
        found = self.entries.get(path.removeprefix("/latest/meta-data/"))
        return (404, "no such entry") if found is None else (200, found)

    def forget_tokens(self) -> None:
        self.tokens = set()


@contextmanager
def serving(fake: FakeImds) -> Iterator[FakeImds]:
    """`fake.url` answers while this is open."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            status, text = fake.answer(
                self.command,
                self.path,
                self.headers.get("X-aws-ec2-metadata-token"),
                self.headers.get("X-aws-ec2-metadata-token-ttl-seconds"),
            )
            fake.log.append(f"{self.command} {self.path} {status}")
            data = text.encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/latest/meta-data/instance-id")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = handle_any

        def log_message(self, format: str, *arguments: object) -> None:
            """Silence: the fake's own log is what tests read."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
