"""`txjax inspect` on small runs of text and of images."""

import json
import struct
from pathlib import Path

import pytest

from txjax.commands.inspect import without_pipeline
from txjax.sharding import Mesh

from helpers import runs

VIT = """
from txjax.data import Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken
from txjax.objectives import Classification
from txjax.optim import AdamW, Constant

def get_config():
    return Experiment(
        model=ViT(patch=4, head=Classes(10, FirstToken()), width=8, depth=2, heads=2),
        objective=Classification(), data=Images(name="txjax_digits"),
        evals={"test": Evaluation(data=Images(split="test"), max_batches=1)},
        optimizer=AdamW(schedule=Constant()), num_steps=1, batch_size=8, trackers=(),
    )
"""

QUERIES = VIT.replace(
    "ViT(patch=4, head=Classes(10, FirstToken()), width=8",
    "DETR(backbone=BACKBONE, queries=3, head=Classes(10, FirstToken()), width=8",
).replace(
    "from txjax.models.vision.vit import ViT",
    """from txjax.models.hierarchical import Stage
from txjax.models.vision.detr import DETR
from txjax.models.vision.meta_former import MetaFormer
from txjax.nn import PatchEmbedding

BACKBONE = MetaFormer(stages=(Stage(8, 1),), stem=PatchEmbedding(patch=2))
""",
)


@pytest.fixture(scope="module")
def config_of_images(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("configs") / "images.py"
    path.write_text(VIT)
    return path


@pytest.fixture(scope="module")
def trained_vit(config_of_images, tmp_path_factory) -> Path:
    workdir = tmp_path_factory.mktemp("runs") / "vit"
    code, _, err = runs.train_here(config_of_images, workdir)
    assert code == 0, err
    return workdir


def inspected(workdir: Path, *flags: str) -> dict:
    code, out, err = runs.command("inspect", f"--workdir={workdir}", *flags, "--json")
    assert code == 0, err
    return json.loads(out)


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


def test_text(straight_run, tmp_path):
    found = inspected(straight_run, f"--out={tmp_path}", "--examples=2", "--head=-1")
    assert found["step"] == 40 and found["notes"] == []
    assert found["chosen"] == {"layers/block/attention": {"layers": [0], "heads": [1]}}
    names = {Path(name).name for name in found["files"]}
    maps = {f"attention_{i}_attention{more}.png" for i in range(2) for more in ("", "_mean")}
    assert names == maps | {"distance.png", "tokens.html", "index.html"}
    for name in names:
        assert min(size(tmp_path / name)) > 100 if name.endswith("png") else (tmp_path / name).stat().st_size > 1000
    assert "tokens.html" in (tmp_path / "index.html").read_text()


def test_a_given_text(straight_run, tmp_path):
    inspected(straight_run, f"--out={tmp_path}", "--input=<script>x", "--layer=0")
    for page in ("tokens.html", "index.html"):
        assert "<script>x" not in (tmp_path / page).read_text()
    assert (
        "<script>x".encode("unicode_escape").decode().replace("<", "\\u003c").replace(">", "\\u003e")
        in (tmp_path / "tokens.html").read_text()
    )


@pytest.mark.slow
def test_images(trained_vit):
    code, out, err = runs.command("inspect", f"--workdir={trained_vit}", "--examples=2", "--query=7,0")
    assert code == 0, err
    folder = trained_vit / "inspect" / "step_1"
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "overview.png",
        "attention_0_attention.png",
        "attention_1_attention.png",
        "distance.png",
        "positions.png",
        "filters.png",
        "index.html",
    }
    assert all(name in out for name in names) and str(folder / "index.html") in out
    page = (folder / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 6 and "Grad-CAM" in page and "http" not in page


@pytest.mark.slow
def test_queries_over_images(tmp_path):
    config = tmp_path / "queries.py"
    config.write_text(QUERIES)
    code, _, err = runs.train_here(config, tmp_path / "run")
    assert code == 0, err
    found = inspected(tmp_path / "run", "--examples=1")
    names = {Path(name).name for name in found["files"]}
    assert {"attention_0_decoder_cross.png", "attention_0_decoder_cross_words.png"} <= names
    (note,) = (note for note in found["notes"] if "no picture" in note)
    assert note.startswith("no picture of decoder/layers/block/attention: ")
    assert "What the query of each row reads of the image" in (tmp_path / "run/inspect/step_1/index.html").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--layer=2", "--layer: expected a number from -2 to 1, got 2; of layers/block/attention"),
        ("--head=-3", "--head: expected a number from -2 to 1, got -3"),
        ("--layer=last", "--layer: expected numbers such as 0 or 0,2,-1, got 'last'"),
        ("--examples=0", "--examples: expected at least 1, got 0"),
        ("--data=tset", "--data: expected one of test, train, got 'tset'; did you mean test?"),
        ("--query=8,0", "--query: expected ROW,COLUMN of a pixel, below 8,8, got '8,0'"),
        ("--input=a", "--input: expected a run on texts, got 'Images'"),
        ("--step=7", "--step"),
    ],
)
def test_mistakes(trained_vit, flags, message):
    code, out, err = runs.command("inspect", f"--workdir={trained_vit}", flags)
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1


def test_a_pipeline_becomes_replicas():
    for mesh in (Mesh(pipeline=4), Mesh(data=1, pipeline=2, tensor=2), Mesh(data=1, pipeline=4), Mesh(fsdp=-1, data=2)):
        sizes = without_pipeline(mesh).sizes(4)
        assert sizes["pipeline"] == 1 and sizes["tensor"] == mesh.tensor
