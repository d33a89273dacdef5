"""Servers of trackers that are dead, slow or wrong, behind the clients of MLflow: the run is the same, bit for bit."""

import contextlib
import http.server
import importlib.util
import threading
from collections.abc import Iterator

import jax
import numpy as np
import pytest

import txjax

from helpers import runs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.claim("Logs", "a tracker's server that is dead, slow or wrong changes no bit of the run"),
]

if importlib.util.find_spec("mlflow") is None:
    pytest.skip("it needs the extra trackers", allow_module_level=True)


class Server(http.server.BaseHTTPRequestHandler):
    """Answers every request with `answer`, after `over` if that is to be waited for."""

    over = threading.Event()
    status = 200
    answer = b"{}"

    def do_GET(self) -> None:
        self.over.wait(60)
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(self.answer)

    do_POST = do_GET

    def log_message(self, *args: object) -> None:
        pass


class Slow(Server):
    over = threading.Event()


class Broken(Server):
    status, answer = 500, b"<html>a proxy's page</html>"


class Wrong(Server):
    answer = b"[1, 2"


Server.over.set()


@contextlib.contextmanager
def address_of(kind: type[Server] | None) -> Iterator[str]:
    """The address of a server, or of none."""
    if kind is None:
        yield f"http://{runs.free_address()}"
        return
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        kind.over.set()
        server.shutdown()


@pytest.mark.parametrize("kind", [None, Slow, Broken, Wrong])
def test_a_failing_server_changes_nothing(kind, straight_run, tmp_path, monkeypatch):
    for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"):
        monkeypatch.setenv(name, "1")
    with address_of(kind) as address:
        tracked = runs.CONFIG.replace("trackers=()", f"trackers=(MLflow(server={address!r}),)")
        (tmp_path / "config.py").write_text(tracked + "\nfrom txjax.log import MLflow\n")
        code, _, err = runs.train_here(tmp_path / "config.py", tmp_path / "run")
        assert code == 0, err
        assert err.count("tracker MLflow is switched off") == 1
        assert runs.rows(tmp_path / "run") == runs.rows(straight_run)
        params = [txjax.open(run).params for run in (tmp_path / "run", straight_run)]
        jax.tree.map(np.testing.assert_array_equal, *params)
