"""The scores that configs promise in their docstrings, as a test can hold them.

    Cost: about 2 minutes on two CPU cores.
    Score: eval/valid/loss 1.92, nats a byte of held-out files.

A score of one of a config's variants has its name before it: `Score: mrpc: eval/valid/accuracy 0.669`.

    python tests/helpers/scores.py    picks what .ci/run trains: expressions for `pytest -m score -k`
"""

import dataclasses
import hashlib
import inspect
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from txjax import config, tree

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.py"))
COMMITS = 20  # a file counts as changed where one of so many last commits changed it
MINUTES = 3.0  # that the configs which are picked may cost together
TOLERANCE = 0.03  # of the score, by which another machine or version may miss it


@dataclasses.dataclass(frozen=True)
class Score:
    """What a config reaches by `txjax train` alone.

    Attributes:
      path: of the config file.
      variant: of the config. If None, the file's default.
      metric: a name of metrics.jsonl.
      value: of that metric at the end.
      minutes: that it costs at most, as stated.
    """

    path: Path
    variant: str | None
    metric: str
    value: float
    minutes: float

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def source(self) -> str:
        return str(self.path) if self.variant is None else f"{self.path}:{self.variant}"

    def holds(self, value: float) -> bool:
        """Whether a run that ended with this value reached the score."""
        if self.metric.endswith(("loss", "masked_token")):
            return value <= self.value * (1 + TOLERANCE)
        return value >= self.value * (1 - TOLERANCE)


def cpu_minutes(docstring: str) -> float | None:
    """What training costs at most, where it is stated in minutes or seconds of a CPU."""
    cost = re.search(r"^Cost: (.*?)(?=^Score:)", docstring, re.MULTILINE | re.DOTALL)
    if cost is None or "CPU" not in cost[1]:
        return None
    found = re.findall(r"([\d.]+) (minute|second)s?", cost[1])
    return max(float(number) / {"minute": 1, "second": 60}[unit] for number, unit in found) if found else None


def read(path: Path) -> Score | None:
    """The score of a config that trains on a CPU in minutes, if it is one.

    Raises:
      ValueError: it is, and its docstring has no score that can be held.
    """
    docstring = path.read_text().split('"""')[1]
    minutes = cpu_minutes(docstring)
    if minutes is None:
        return None
    found = re.search(r"^Score: (?:(\w+): )?(eval/\S+) (\d[\d.]*\d)", docstring, re.MULTILINE)
    if found is None:
        raise ValueError(f"{path}: expected a line such as `Score: eval/valid/loss 1.92`")
    return Score(path, found[1], found[2], float(found[3]), minutes)


def known() -> list[Score]:
    return [score for path in CONFIGS if (score := read(path)) is not None]


def sources(score: Score) -> set[str]:
    """The files of this repository that a config is made of: its own, its model's, objective's, data's, ..."""
    nodes = [node for _, node in tree.walk(config.load(score.source, [])) if dataclasses.is_dataclass(node)]
    files = {score.path, *(Path(inspect.getfile(type(node))) for node in nodes)}
    return {str(file.relative_to(ROOT)) for file in files if file.is_relative_to(ROOT)}


def pick(scores: Iterable[Score], changed: set[str], commit: str, minutes: float = MINUTES) -> list[Score]:
    """Those that changed and one more, as far as their cost allows, and at least one.

    The order follows from the commit, so that each has its turn.

    Args:
      changed: names of files.
      commit: its hash.
    """
    turn = sorted(scores, key=lambda score: hashlib.sha256(f"{commit} {score.name}".encode()).digest())
    turn = [score for score in turn if score.minutes <= minutes]
    touched = [score for score in turn if sources(score) & changed]
    picked: list[Score] = []
    for group, most in ((touched, len(touched)), ([score for score in turn if score not in touched], 1)):
        for score in group:
            if most and sum(other.minutes for other in picked) + score.minutes <= minutes:
                picked.append(score)
                most -= 1
    return picked


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout


def changed_files(commits: int = COMMITS) -> set[str]:
    """Files that the last commits changed."""
    hashes = git("rev-list", f"--max-count={commits + 1}", "HEAD").split()
    return set(git("diff", "--name-only", hashes[-1], "HEAD").split()) if len(hashes) > 1 else set()


def expression(scores: Sequence[Score]) -> str:
    """For pytest's -k."""
    return " or ".join(f"[{score.name}]" for score in scores)


if __name__ == "__main__":
    print(expression(pick(known(), changed_files(), git("rev-parse", "HEAD").strip())))
