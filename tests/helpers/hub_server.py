"""A server that speaks what an upload to the Hugging Face Hub needs: repositories, LFS files, commits, and faults."""

import base64
import contextlib
import dataclasses
import hashlib
import http.server
import json
import re
import threading
from collections.abc import Iterator
from typing import Any

TOKEN = "hf_of_the_tests"


@dataclasses.dataclass
class Repo:
    """A repository: its files, and the messages of its commits."""

    private: bool
    files: dict[str, bytes]
    commits: list[str]

    @property
    def sha(self) -> str:
        return hashlib.sha1(repr((self.commits, sorted(self.files))).encode()).hexdigest()


class Hub:
    """The Hub.

    Attributes:
      url: its address.
      repos: repositories by id.
      stored: LFS files by their SHA-256.
      requests: method and path of all requests.
      faults: statuses of the next answers to paths that a pattern matches.
      lost: how many answers to commits are lost after they were done.
    """

    def __init__(self) -> None:
        self.url = ""
        self.repos: dict[str, Repo] = {}
        self.stored: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.faults: dict[str, list[int]] = {}
        self.lost = 0

    def fault(self, request: str) -> int | None:
        return next(
            (faults.pop(0) for pattern, faults in self.faults.items() if faults and re.search(pattern, request)), None
        )

    def respond(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        repo = re.match(r"(?:/api/models)?/([\w.-]+/[\w.-]+?)(?:\.git)?(?=/|$)", path)
        known = self.repos.get(repo[1]) if repo else None
        match method, path.removeprefix("/api").split("/")[1:]:
            case "POST", ["repos", "create"]:
                facts = json.loads(body)
                name = f"{facts['organization']}/{facts['name']}"
                if name in self.repos:
                    return 409, {"error": "You already created this model repo", "url": f"{self.url}/{name}"}
                private = facts.get("visibility") == "private" or facts.get("private", False)
                self.repos[name] = Repo(private, {".gitattributes": b"*.safetensors lfs"}, [])
                return 200, {"url": f"{self.url}/{name}", "name": name}
            case "POST", ["validate-yaml"]:
                return 200, {"errors": [], "warnings": []}
            case "PUT", ["", "lfs", digest] | ["lfs", digest]:
                self.stored[digest] = body
                return (200, {}) if hashlib.sha256(body).hexdigest() == digest else (400, {"error": "wrong digest"})
        if known is None:
            return 404, {"error": "Repository not found"}
        if method == "GET":
            siblings = [{"rfilename": name} for name in known.files]
            return 200, {"id": repo[1], "sha": known.sha, "siblings": siblings, "private": known.private}
        if "/preupload/" in path:
            names = [file["path"] for file in json.loads(body)["files"]]
            return 200, {"files": [self.upload_mode(name, known.files.get(name)) for name in names]}
        if path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            for entry in objects:
                if entry["oid"] not in self.stored:
                    entry["actions"] = {"upload": {"href": f"{self.url}/lfs/{entry['oid']}"}}
            return 200, {"transfer": "basic", "objects": objects}
        if "/commit/" in path:
            return self.commit(repo[1], known, [json.loads(line) for line in body.splitlines()])
        return 404, {"error": "no such request"}

    def upload_mode(self, name: str, content: bytes | None) -> dict[str, Any]:
        """How a file is uploaded, and the hash of the one that is there."""
        large = name.endswith(".safetensors")
        mode = {"path": name, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
        if content is None:
            return mode
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        return mode | {"oid": hashlib.sha256(content).hexdigest() if large else blob}

    def commit(self, name: str, repo: Repo, lines: list[dict[str, Any]]) -> tuple[int, Any]:
        header = lines[0]["value"]
        if header.get("parentCommit", repo.sha) != repo.sha:
            return 412, {"error": "the parent is not the head"}
        for line in lines[1:]:
            value = line["value"]
            match line["key"]:
                case "file":
                    repo.files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    repo.files[value["path"]] = self.stored[value["oid"]]
                case "deletedFile":
                    del repo.files[value["path"]]
        repo.commits.append(header["summary"])
        if self.lost:
            self.lost -= 1
            return 504, {"error": "a gateway gave up"}
        return 200, {"commitOid": repo.sha, "commitUrl": f"{self.url}/{name}/commit/{repo.sha}", "hookOutput": ""}


@contextlib.contextmanager
def hub_server() -> Iterator[Hub]:
    """Serves a Hub without repositories, which knows one token."""
    hub = Hub()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            hub.requests.append(f"{self.command} {path}")
            status = hub.fault(hub.requests[-1])
            answer: Any = {"error": "a fault"}
            if status is None and not path.startswith("/lfs/") and self.headers["Authorization"] != f"Bearer {TOKEN}":
                status = 401
            if status is None:
                status, answer = hub.respond(self.command, path, body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if status == 404:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = respond

        def log_message(self, *_: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield hub
    server.shutdown()
    server.server_close()
    thread.join()
