"""Time over the length of a text: softmax attention against linear attention, generating and reading.

    python benchmarks/linear_attention.py [--lengths=256,512,1024,2048,4096] [--width=256] [--depth=4] [--heads=4]
        [--batch=1] [--features=128] [--steps=64] [--rounds=5] [--clock=wall|cpu] [--picture=FILE.png]

A token: one step of generation after a text of that length, the mean of `--steps` steps in one program. A pass: the
logits of a whole text of that length. All models and lengths take turns in every round; the table has medians of the
rounds. Below it is the first length at which a model is faster than the softmax.
"""

import argparse
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import contenders  # beside this file

from txjax.backend import jit, prepare

prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from flax.core import meta  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import LogLocator, NullFormatter  # noqa: E402

from txjax.decoding import Cached  # noqa: E402
from txjax.log.terminal_table import table  # noqa: E402
from txjax.models.text.decoder import Decoder  # noqa: E402
from txjax.nn import Attention, EluPlusOne, FavorPlus, LinearAttention, Rotary  # noqa: E402
from txjax.report.theme import LIGHT, style_axes  # noqa: E402

VOCAB = 256
BASE = "softmax"
Case = tuple[str, int]  # a model and a length


def models(flags: argparse.Namespace) -> dict[str, tuple[Decoder, Any]]:
    """The contenders: each model and its variables."""
    mixers = {
        BASE: Attention(),
        "elu + 1": LinearAttention(features=EluPlusOne()),
        f"FAVOR+ {flags.features}": LinearAttention(features=FavorPlus(features=flags.features)),
    }
    sizes: dict[str, Any] = dict(vocab=VOCAB, width=flags.width, depth=flags.depth, heads=flags.heads)

    def drawn(model: Decoder) -> tuple[Decoder, Any]:
        draw = jax.jit(lambda: model.init(jax.random.key(0, impl="rbg"), jnp.zeros((1, 1), jnp.int32)))
        return model, meta.unbox(draw())

    return {name: drawn(Decoder(**sizes, positions=Rotary(), mixer=mixer)) for name, mixer in mixers.items()}


def generating(model: Decoder, variables: Any, tokens: jax.Array, steps: int) -> Callable[[], Any]:
    """`steps` steps after the text."""
    generator = Cached(model)
    given = {"tokens": tokens}
    prepared = generator.prepare(variables, given)

    def run(variables: Any, state: Any, token: jax.Array) -> jax.Array:
        def step(carry: Any, _: None) -> Any:
            state, token = carry
            logits, state = generator.step(variables, state, token)
            return (state, logits.argmax(-1).astype(jnp.int32)), None

        (_, token), _ = jax.lax.scan(step, (state, token), None, length=steps)
        return token

    _, state = jit(lambda variables, given: generator.start(variables, given, steps))(prepared, given)
    program = jit(run)
    return lambda: program(prepared, state, tokens[:, -1])


def reading(model: Decoder, variables: Any, tokens: jax.Array) -> Callable[[], Any]:
    """The logits of the whole text."""
    program = jit(lambda variables, tokens: model.apply(variables, tokens).dense())
    return lambda: program(variables, tokens)


def seconds(work: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Of the second time: the first one finds the caches and the freed memory of what ran before."""
    jax.block_until_ready(work())
    begun = clock()
    jax.block_until_ready(work())
    return clock() - begun


def medians(works: dict[Case, Callable[[], Any]], flags: argparse.Namespace) -> dict[Case, float]:
    """Seconds of each work, all of which take turns."""
    clock = contenders.CLOCKS[flags.clock]
    rounds = [{case: seconds(work, clock) for case, work in works.items()} for _ in range(flags.rounds)]
    return {case: statistics.median(each[case] for each in rounds) for case in works}


def measured(flags: argparse.Namespace, lengths: list[int]) -> tuple[dict[Case, float], dict[Case, float]]:
    """Seconds of a token and of a pass."""
    rng, drawn = np.random.default_rng(0), models(flags)
    texts = {n: jnp.asarray(rng.integers(0, VOCAB, (flags.batch, n)), jnp.int32) for n in lengths}
    cases = [(name, n) for name in drawn for n in lengths]
    steps = {(name, n): generating(*drawn[name], texts[n], flags.steps) for name, n in cases}
    passes = {(name, n): reading(*drawn[name], texts[n]) for name, n in cases}
    return {case: each / flags.steps for case, each in medians(steps, flags).items()}, medians(passes, flags)


def draw(both: tuple[dict[Case, float], dict[Case, float]], lengths: list[int]) -> Figure:
    """Milliseconds of a token and of a pass over the length."""
    figure = Figure(figsize=(9.6, 4.2), dpi=110, facecolor=LIGHT.paper, layout="constrained")
    for axes, found, title in zip(figure.subplots(1, 2), both, ("a generated token", "a whole text"), strict=True):
        style_axes(axes, LIGHT, f"{title}, ms")
        for name, color in zip(dict.fromkeys(name for name, _ in found), LIGHT.lines, strict=False):
            times = [1e3 * found[name, length] for length in lengths]
            axes.plot(lengths, times, color=color, marker="o", ms=4, lw=1.8, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.set_xlabel("length of the text, tokens", fontsize=9, color=LIGHT.faint)
        axes.legend(fontsize=9, frameon=False, labelcolor=LIGHT.ink)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="256,512,1024,2048,4096", help="tokens of a text")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--batch", type=int, default=1, help="texts")
    parser.add_argument("--features", type=int, default=128, help="random features of FAVOR+")
    parser.add_argument("--steps", type=int, default=64, help="generated tokens a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--clock", default="wall", choices=tuple(contenders.CLOCKS), help="cpu: for one core of a busy machine"
    )
    parser.add_argument("--picture", type=Path, help="also draw both tables here")
    flags = parser.parse_args()
    lengths = [int(length) for length in flags.lengths.split(",")]
    both = measured(flags, lengths)
    names = dict.fromkeys(name for name, _ in both[0])
    rows = []
    for length in lengths:
        for name in names:
            rows.append([str(length), name])
            for found in both:
                own, base = found[name, length], found[BASE, length]
                rows[-1] += [f"{1e3 * own:.2f}", f"{base / own:.2f}"]
    sizes = f"width {flags.width}, {flags.depth} layers, {flags.heads} heads, batch {flags.batch}"
    title = f"{os.cpu_count()} cores, {jax.default_backend()}: {sizes}, {flags.rounds} rounds"
    table(title, ["length", "model", "ms a token", "x softmax", "ms a pass", "x softmax"], rows)
    for name in names:
        if name != BASE:
            first = [next((n for n in lengths if found[name, n] < found[BASE, n]), None) for found in both]
            print(f"{name}: faster than the softmax from length {first[0]} on in a token, {first[1]} in a pass")
    if flags.picture:
        draw(both, lengths).savefig(flags.picture)


if __name__ == "__main__":
    main()
