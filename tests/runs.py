"""`txjax train` in processes of its own, as its users start it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

CONFIG = """
from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder import Decoder
from txjax.objectives import NextToken
from txjax.optim import AdamW, Constant

def get_config():
    held_out = NextTokenWindows(split="validation", length=16)
    return Experiment(
        model=Decoder(vocab=256, width=16, depth=1, heads=2),
        objective=NextToken(),
        data=NextTokenWindows(length=16),
        evals={"valid": Evaluation(data=held_out, every_steps=10, max_batches=2)},
        optimizer=AdamW(schedule=Constant(warmup_steps=2)),
        checkpoint=Checkpoints(every_steps=10, keep=3, best="eval/valid/loss"),
        num_steps=40,
        batch_size=8,
        log_every_steps=1,
        trackers=(),
    )
"""


def start(config: Path, workdir: Path, *flags: str, devices: int = 1) -> subprocess.Popen:
    words = [sys.executable, "-m", "txjax", "train", f"--config={config}", f"--workdir={workdir}", *flags]
    quick = "--xla_backend_optimization_level=0"  # to compile
    environment = os.environ | {"XLA_FLAGS": f"{quick} --xla_force_host_platform_device_count={devices}"}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def train(config: Path, workdir: Path, *flags: str, devices: int = 1) -> tuple[int, str, str]:
    process = start(config, workdir, *flags, devices=devices)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def rows(workdir: Path) -> list[dict]:
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    return [
        {k: v for k, v in json.loads(x).items() if k != "time" and not k.startswith(("perf/", "goodput"))}
        for x in lines
    ]


def wait_for_step(process: subprocess.Popen, workdir: Path, step: int) -> None:
    path, deadline = workdir / "metrics.jsonl", time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.read_text().count("\n") >= step:
            return
        time.sleep(0.001)
    said = process.stderr.read() if process.poll() is not None and process.stderr else "nothing"
    raise AssertionError(f"never reached step {step}: exit code {process.poll()}, {said}")
