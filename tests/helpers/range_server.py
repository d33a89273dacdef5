"""A web server of the files of a folder that answers requests for ranges, counts them, and can answer wrongly."""

import contextlib
import http.server
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import unquote

STALL_SECONDS = 3.0  # longer than a client of a test waits


class RangeServer:
    """A server of a folder.

    Attributes:
      url: its address.
      counts: the `requests`, and the `bytes` of the bodies of their answers.
      faults: what the next requests for bytes are answered with instead, one each: a status; or a body that is `cut`,
        `stalled` in its middle, or has one `flipped` bit, another one each time.
      etags: whether files have ETags.
      tag: of a content, if not None: its ETag.
      ranges: whether ranges are answered.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.url = ""
        self.counts: Counter = Counter()
        self.faults: list[str] = []
        self.etags = True
        self.tag: Callable[[bytes], str] | None = None
        self.flips = 0
        self.ranges = True


@contextlib.contextmanager
def range_server(folder: Path) -> Iterator[RangeServer]:
    """Serves the files of a folder."""
    state = RangeServer(folder)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # an answer is one packet, if it is small

        def respond(self) -> None:
            fault = state.faults.pop(0) if state.faults and self.command == "GET" else ""
            path = state.folder / unquote(self.path[1:])
            if fault.isdigit() or not path.is_file():
                self.send(int(fault or 404), {}, b"")
                return
            content, stat = path.read_bytes(), path.stat()
            headers = {"Last-Modified": formatdate(stat.st_mtime, usegmt=True)}
            if state.etags:
                tag = state.tag(content) if state.tag else f"{stat.st_mtime_ns:x}-{stat.st_size:x}"
                headers["ETag"] = f'"{tag}"'
            span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "") if state.ranges else "")
            if span is None:
                self.send(200, headers, content, fault)
            elif int(span[1]) >= len(content):
                self.send(416, {}, b"")
            else:
                part = content[int(span[1]) : int(span[2]) + 1]
                last = int(span[1]) + len(part) - 1
                self.send(206, headers | {"Content-Range": f"bytes {span[1]}-{last}/{len(content)}"}, part, fault)

        def send(self, status: int, headers: dict[str, str], body: bytes, fault: str = "") -> None:
            self.send_response_only(status)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            if fault == "flipped":
                place = state.flips * 7 % len(body)
                body = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
                state.flips += 1
            body = b"" if self.command == "HEAD" else body[: len(body) // 2] if fault in ("cut", "stalled") else body
            state.counts["requests"] += 1
            state.counts["bytes"] += len(body)
            self.wfile.write(body)
            if fault == "stalled":
                self.wfile.flush()
                time.sleep(STALL_SECONDS)
            self.close_connection = fault in ("cut", "stalled")

        do_GET = do_HEAD = respond

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
