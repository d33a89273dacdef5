"""Runs on files of every kind are killed and resume exactly; an index whose builder is killed is built again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from txjax.__main__ import main
from txjax.data import AudioFolder, ImageFolder, JSONLines
from txjax.data.sources.source_of import source_at
from txjax.log import read_metrics

from helpers import runs
from helpers.file_kinds import kinds, rows, source_of

pytestmark = pytest.mark.claim("Data", "runs on files of every kind are killed at random and resume exactly")

ROOT = Path(__file__).parents[2]
TEXT = ("--config.model.width=8", "--config.model.depth=1", "--config.model.heads=1", "--config.data.length=16")
IMAGES = (
    "--config.model.width=8",
    "--config.model.depth=1",
    "--config.data.shape=(4, 4, 3)",
    "--config.data.classes=3",
)
AUDIO = (*TEXT[:3], "--config.data.samples=3200")
CONFIGS = {ImageFolder: ("vision/vit_digits.py", IMAGES), AudioFolder: ("audio/audio_folder.py", AUDIO)}
# A config file with a source of its own.
NOTES = """
import dataclasses
import txjax
from txjax.data import PythonRows

@dataclasses.dataclass
class Notes(PythonRows):
    def rows(self):
        return [{"text": f"note {number}"} for number in range(300)]

def get_config():
    return txjax.load_config("txjax:text/gpt_tiny", {"data.source": Notes()})
"""


def kill_at_random(folder, capsys, *flags):
    """Six times in 24 steps."""
    words = [*flags, "--config.batch_size=4", "--config.num_steps=24", "--config.optimizer.schedule.warmup_steps=0"]
    assert main(["chaos", *words, "--kills=6", "--steps=24", f"--workdir={folder}/trial", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert result["exact"] and len(result["interruptions"]) == 6


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_random_kills_change_nothing(kind, tmp_path, capsys):
    source = source_of(kind, tmp_path, rows(300))
    name, sizes = CONFIGS.get(kind, ("text/gpt_tiny.py", TEXT))
    settings = f"--config.data.source={source.paths if source == source_at(source.paths) else repr(source)}"
    kill_at_random(tmp_path, capsys, f"--config={ROOT}/configs/{name}", settings, *sizes)


@pytest.mark.slow
def test_random_kills_change_nothing_in_a_run_on_rows_of_python(tmp_path, capsys):
    (tmp_path / "notes.py").write_text(NOTES)
    kill_at_random(tmp_path, capsys, f"--config={tmp_path}/notes.py", *TEXT)


def test_flags_name_the_columns_of_a_table(tmp_path):
    """A classifier has as many classes as the column, and the config of the run says how many."""
    stars = [number % 5 + 1 for number in range(60)]
    (tmp_path / "reviews.csv").write_text("review,stars\n" + "".join(f"a text {n},{n}\n" for n in stars))
    columns = ("--config.data.text=review", "--config.data.label=stars", f"--config.data.source={tmp_path}/reviews.csv")
    flags = [f"--config={ROOT}/configs/text/classifier.py", *TEXT[:3], *columns, "--config.num_steps=2"]
    flags += ["--config.optimizer.schedule.warmup_steps=0", f"--workdir={tmp_path}/run"]
    assert main(["train", *flags]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model"]["head"]["classes"] == config["data"]["classes"] == 5
    assert config["evals"]["test"]["data"]["label"] == "stars"
    assert any("eval/test/accuracy" in row for row in read_metrics(tmp_path / "run"))


@pytest.mark.parametrize(
    "kind", [JSONLines, *(pytest.param(kind, marks=pytest.mark.slow) for kind in kinds() if kind is not JSONLines)]
)
def test_an_index_whose_builder_is_killed_is_built_again(kind, tmp_path):
    """By the next process, which waits for no other."""
    source = source_of(kind, tmp_path, rows(20), held_out=0.0)
    build = f"""
import time
import txjax.data as data
from txjax.data.loading import disk_cache
disk_cache.digest.commit = lambda folder: (print("indexing", flush=True), time.sleep(600))
data.{source!r}.features()
"""
    environment = runs.environment() | {"TXJAX_CACHE_DIR": str(tmp_path / "cache")}
    builder = subprocess.Popen([sys.executable, "-c", build], env=environment, stdout=subprocess.PIPE, text=True)
    assert builder.stdout is not None and builder.stdout.readline() == "indexing\n"
    os.kill(builder.pid, signal.SIGKILL)
    builder.communicate()
    started = time.monotonic()
    read = f"import txjax.data as data; print(len(data.{source!r}.open('train', ['text'])))"
    done = subprocess.run([sys.executable, "-c", read], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) == 20 and time.monotonic() - started < 300
