"""Synthetic runs of known scaling laws, and the public runs beside the checkout."""

from pathlib import Path

import numpy as np
import pytest

PUBLIC = Path(__file__).parents[3] / "shared" / "scaling"
LAW = {"E": 1.7, "A": 400.0, "B": 1200.0, "alpha": 0.34, "beta": 0.3}


def public(name: str) -> Path:
    """A file of the public runs; skips the test if it is missing."""
    if not (PUBLIC / name).exists():
        pytest.skip(f"no public runs in {PUBLIC}")
    return PUBLIC / name


def loss(params: np.ndarray, tokens: np.ndarray, **law: float) -> np.ndarray:
    known = LAW | law
    return known["E"] + known["A"] / params ** known["alpha"] + known["B"] / tokens ** known["beta"]


def noise(count: int, size: float, seed: int = 0) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(0, size, count))


def grid(sizes: int = 6, lengths: int = 6, size: float = 0.0) -> dict[str, np.ndarray]:
    """Runs of sizes from 1e7 to 1e9, from 1e9 to 1e11 tokens, with noise of this relative size."""
    n, d = (x.ravel() for x in np.meshgrid(np.geomspace(1e7, 1e9, sizes), np.geomspace(1e9, 1e11, lengths)))
    return {"params": n, "tokens": d, "loss": loss(n, d) * noise(len(n), size)}


def profiles(budgets: int = 4, sizes: int = 7, size: float = 0.0) -> dict[str, np.ndarray]:
    """IsoFLOP profiles around the best sizes of budgets from 1e18 to 1e21."""
    a = LAW["beta"] / (LAW["alpha"] + LAW["beta"])
    g = (LAW["alpha"] * LAW["A"] / (LAW["beta"] * LAW["B"])) ** (1 / (LAW["alpha"] + LAW["beta"]))
    flops = np.repeat(np.geomspace(1e18, 1e21, budgets), sizes)
    n = g * (flops / 6) ** a * np.tile(np.geomspace(1 / 3, 3.2, sizes), budgets)
    d = flops / 6 / n
    return {"params": n, "tokens": d, "flops": flops, "loss": loss(n, d) * noise(len(n), size)}


def write(path: Path, columns: dict[str, np.ndarray], **text: list[str]) -> Path:
    """The columns as CSV."""
    every = {**{name: [repr(float(x)) for x in column] for name, column in columns.items()}, **text}
    rows = [",".join(every), *(",".join(row) for row in zip(*every.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")
    return path
