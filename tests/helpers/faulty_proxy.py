"""A proxy before an S3 server that answers some requests wrongly: each kind of fault at random, by a seed."""

import contextlib
import http.client
import http.server
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

FAULTS = ("500", "503", "lost", "cut", "stalled", "flipped")
STALL_SECONDS = 3.0  # longer than the client waits


@contextlib.contextmanager
def faulty_proxy(endpoint: str, share: float, seed: int = 0) -> Iterator[tuple[str, Counter]]:
    """Yields the address of a proxy that answers a share of the requests wrongly, and the number of each fault so far.

    Faults: `500` and `503` instead of the request; an answer that is `lost` when the request was done; a body that is
    `cut`, `stalled`, or has one `flipped` bit.
    """
    draw = random.Random(seed)
    counts: Counter = Counter()
    host = endpoint.removeprefix("http://")

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fault = draw.choice(FAULTS) if draw.random() < share else ""
            if fault in ("cut", "stalled", "flipped") and self.command != "GET":
                fault = ""
            counts[fault] += 1
            if fault in ("500", "503"):
                self.answer(int(fault), [], b"")
                return
            upstream = http.client.HTTPConnection(host, timeout=30)
            upstream.request(self.command, self.path, content, dict(self.headers))
            response = upstream.getresponse()
            body = response.read()
            upstream.close()
            if fault == "lost":
                self.close_connection = True
                self.connection.close()
            elif fault == "flipped" and response.status == 200 and body and "list-type" not in self.path:
                at = draw.randrange(len(body))
                self.answer(response.status, response.getheaders(), body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
            else:
                self.answer(response.status, response.getheaders(), body, fault)

        def answer(self, status: int, headers: list[tuple[str, str]], body: bytes, fault: str = "") -> None:
            self.send_response_only(status)
            skipped = ("content-length", "transfer-encoding", "connection")
            for name, value in headers:
                if name.lower() not in skipped:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if fault:
                self.wfile.write(body[: len(body) // 2])
                self.wfile.flush()
                time.sleep(STALL_SECONDS if fault == "stalled" else 0)
                self.close_connection = True
            else:
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError, ValueError):
                super().handle()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", counts
    finally:
        server.shutdown()
        server.server_close()
