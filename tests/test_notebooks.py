"""Notebooks of the docs run from their first cell to their last, each alone."""

import os
import re
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.claim("Documentation", "each tutorial runs alone, and its last figures are checked in its cells"),
]

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = [path for path in sorted(DOCS.glob("*.md")) if "file_format: mystnb" in path.read_text()[:100]]
SECONDS = 600  # a cell, on a machine that does other work, too


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, root, monkeypatch, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="pip install '.[docs]'")
    reading = pytest.importorskip("myst_nb.core.read", reason="pip install '.[docs]'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(root))
    notebook = reading.read_myst_markdown_notebook(path.read_text(), path=path)
    client = nbclient.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3")
    client.execute()
    texts = [output["text"] for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output]
    assert not re.search("Traceback|command not found", "\n".join(texts))
