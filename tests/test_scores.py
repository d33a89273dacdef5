"""The scores that the docs promise, reached again from the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def scores(config: str, workdir: Path, **environment: str) -> list[dict]:
    words = [sys.executable, "-m", "txjax", "train", f"--config={ROOT / config}", f"--workdir={workdir}"]
    own = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    ended = subprocess.run(words, env=own | environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_shakespeare_letter_by_letter_reaches_nanogpts_published_loss(tfds_dir, tmp_path):
    rows = scores("configs/text/shakespeare_char.py", tmp_path / "run", TFDS_DATA_DIR=str(tfds_dir))
    assert rows[-1]["step"] == 2000 and rows[-1]["eval/valid/loss"] <= 1.88


@pytest.mark.slow
def test_a_vit_reads_held_out_digits(tmp_path):
    rows = scores("configs/vision/vit_digits.py", tmp_path / "run")
    assert max(row.get("eval/test/accuracy", 0) for row in rows) >= 0.97 and rows[-1]["eval/test/accuracy"] >= 0.97
