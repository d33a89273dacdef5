"""The scores that configs promise in their docstrings, as a test can hold them.

    Cost: about 2 minutes on two CPU cores.
    Score: eval/valid/loss 1.92, nats a byte of held-out files.

A score of one of a config's variants has its name before it: `Score: mrpc: eval/valid/accuracy 0.669`. A metric that
must not be above a value, such as a score without the right images, has a line `Bound: eval/shuffled/accuracy 0.60`.
"""

import dataclasses
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.py"))
MINUTES = 1.0  # that the configs which a change trains may cost together
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
      bounds: other metrics and the values that they have at most.
    """

    path: Path
    variant: str | None
    metric: str
    value: float
    minutes: float
    bounds: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def source(self) -> str:
        return str(self.path) if self.variant is None else f"{self.path}:{self.variant}"

    def holds(self, value: float) -> bool:
        """Whether a run that ended with this value reached the score."""
        if self.metric.endswith(("loss", "masked_token", "cer", "wer")):
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
    bounds = re.findall(r"^Bound: (eval/\S+) (\d[\d.]*\d)", docstring, re.MULTILINE)
    most = tuple((metric, float(value)) for metric, value in bounds)
    return Score(path, found[1], found[2], float(found[3]), minutes, most)


def known() -> list[Score]:
    return [score for path in CONFIGS if (score := read(path)) is not None]
