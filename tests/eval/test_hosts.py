"""Two hosts give the scores of one, and only one of them writes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

from txjax.data import NextTokenWindows, Pairs
from txjax.decoding import Sampling
from txjax.eval import Evaluation, GeneratedTexts, Harness, NearestNeighbours, Predictions, Reconstructions
from txjax.objectives import Classification, MaskedPatch, NextToken

from helpers import runs
from helpers.arrays import numbers
from helpers.evaluations import Bigrams, Copier, Net, Painter, Pictures, measure

pytestmark = pytest.mark.claim("Evaluation", "two hosts give the scores of one")

HOST = """
import json, sys
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
from test_hosts import scores
from pathlib import Path
assert jax.process_count() == 2 and jax.local_device_count() == 2
print(json.dumps(scores(Path(sys.argv[3]))))
"""


def scores(folder: Path) -> dict[str, dict[str, float]]:
    kinds = {
        "mean": Evaluation(data=Pictures()),
        "predictions": Predictions(data=Pictures(), metrics=("accuracy", "f1_macro", "matthews")),
        "neighbours": NearestNeighbours(data=Pictures(), k=3),
    }
    found = {name: measure(Net(), Classification(), kind, data=Pictures(split="train")) for name, kind in kinds.items()}
    paths = Pairs("txjax_python_text", "validation", None, "{path}", "{path}", source_length=12, length=12)
    texts = GeneratedTexts(paths, search=Sampling(temperature=0))
    found["texts"] = measure(Copier(), NextToken(), texts, folder=folder)
    windows = NextTokenWindows("txjax_python_text", "validation", length=32)
    params = {"params": {"table": jnp.asarray(numbers(257, 257))}}
    found["tasks"] = measure(Bigrams(), NextToken(), Harness(data=windows, limit=3), params)
    pictures = Reconstructions(data=Pictures(), count=5)
    return found | {"pictures": measure(Painter("pixels"), MaskedPatch(target="pixels"), pictures, folder=folder)}


@pytest.mark.slow
def test_two_hosts_give_the_scores_of_one(tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    environment = runs.environment(devices=2, processes=2)
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    hosts = [
        subprocess.Popen(
            [sys.executable, "-c", HOST, address, str(i), str(tmp_path / str(i))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for i in range(2)
    ]
    here = scores(tmp_path / "here")
    outputs = [host.communicate(timeout=240) for host in hosts]
    for host, (out, err) in zip(hosts, outputs, strict=True):
        assert host.returncode == 0, err
        there = json.loads(out.splitlines()[-1])
        assert there.keys() == here.keys()
        for name, values in here.items():
            assert there[name] == pytest.approx(values, rel=1e-6)
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("7.*"))
    written = ["pictures/x/7.png", "samples/x/7.txt"]
    assert files == [f"{place}/{name}" for place in ("0", "here") for name in written]
    for name in written:
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
