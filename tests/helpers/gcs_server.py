"""A server of Google Cloud Storage on this machine: gcp-storage-emulator, behind what it lacks of the XML API."""

import contextlib
import http.client
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from helpers.object_stores import BUCKET, Server, emulator
from helpers.runs import free_address

MODIFIED = "Thu, 01 Jan 2026 00:00:00 GMT"
SKIPPED = ("content-length", "transfer-encoding", "connection", "etag", "x-goog-generation", "last-modified")


@contextlib.contextmanager
def gcs() -> Iterator[Server]:
    """An emulator behind `xml_proxy`."""
    address = free_address().replace("localhost", "127.0.0.1")
    words = ["start", "--host=127.0.0.1", f"--port={address.rpartition(':')[2]}", "--in-memory", "--quiet"]
    words.append(f"--default-bucket={BUCKET}")
    program = "gcp-storage-emulator"
    with (
        emulator(program, program, "TXJAX_GCS_SERVER", words, lambda: _ask(address, "GET", "/")[0] == 200),
        xml_proxy(address) as url,
    ):
        account = {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": ""}
        key = json.dumps(account | {"private_key_id": ""})
        yield Server({"GOOGLE_SERVICE_ACCOUNT_KEY": key}, url=f"gs://{BUCKET}")


@contextlib.contextmanager
def xml_proxy(address: str) -> Iterator[str]:
    """Yields the URL of a server that has lists, removals and `x-goog-if-generation-match: 0` of the XML API, too.

    It forwards them as requests of the JSON API (https://cloud.google.com/storage/docs/json_api).
    """
    creation = threading.Lock()  # between looking for an object and its creation

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            bucket, _, key = url.path[1:].partition("/")
            if key:
                self.answer(*_ask(address, "GET", url.path, headers=self.forwarded()))
            else:
                prefix = parse_qs(url.query).get("prefix", [""])[0]
                status, _, body = _ask(address, "GET", f"/storage/v1/b/{bucket}/o?prefix={quote(prefix, safe='')}")
                self.answer(status, {}, _listing(body) if status == 200 else body)

        def do_PUT(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_new = self.headers.get("x-goog-if-generation-match") == "0"
            with creation if is_new else contextlib.nullcontext():
                if is_new and _ask(address, "GET", urlsplit(self.path).path)[0] == 200:
                    self.answer(412, {}, b"<Error><Code>PreconditionFailed</Code></Error>")
                else:
                    self.answer(*_ask(address, "PUT", self.path, content, self.forwarded()))

        def do_DELETE(self) -> None:
            bucket, _, key = urlsplit(self.path).path[1:].partition("/")
            self.answer(*_ask(address, "DELETE", f"/storage/v1/b/{bucket}/o/{quote(unquote(key), safe='')}"))

        def forwarded(self) -> dict[str, str]:
            return {name: value for name, value in self.headers.items() if name.lower() != "host"}

        def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in {"ETag": '"1"', "x-goog-generation": "1", "Last-Modified": MODIFIED, **headers}.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if status != 204:
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _ask(
    address: str, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """The status, headers and body of an answer; status 0 if there is none."""
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request(method, path, content, headers or {})
        response = connection.getresponse()
        kept = {name: value for name, value in response.getheaders() if name.lower() not in SKIPPED}
        return response.status, kept, response.read()
    except ConnectionError:
        return 0, {}, b""
    finally:
        connection.close()


def _listing(body: bytes) -> bytes:
    """A list of the JSON API as one of the XML API."""
    rows = [
        f"<Contents><Key>{escape(item['name'])}</Key><Size>{item['size']}</Size>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>1</ETag></Contents>"
        for item in json.loads(body).get("items", [])
    ]
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>".encode()
