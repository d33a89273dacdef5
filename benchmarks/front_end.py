"""The time of log-mel features: txjax's front ends in jit against the extractors of transformers.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/front_end.py --clock=cpu [--names=speech2text,parakeet]
        [--rows=8] [--seconds=10] [--rounds=7] [--steps=2]

Needs transformers and torch. One batch of noise, `--rows` waveforms of `--seconds` at 16 kHz, float32. Every
front end and every extractor runs in its own process, and all take turns. The table has milliseconds a batch,
medians of the rounds, and the median of their ratios. Whisper's two compute 30 seconds, whatever `--seconds`.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from typing import Any

import contenders
import numpy as np

RATE = 16_000
CONTENDERS = ("txjax", "transformers")
EXTRACTORS = {
    "speech2text": ("Speech2TextFeatureExtractor", {"padding": True}),
    "audio_spectrogram": ("ASTFeatureExtractor", {}),
    "parakeet": ("ParakeetFeatureExtractor", {}),
    "whisper": ("WhisperFeatureExtractor", {}),
}


def waveforms(flags: argparse.Namespace) -> np.ndarray:
    """Noise, float32 [rows, seconds * rate]."""
    noise = np.random.default_rng(0).normal(0, 0.1, (flags.rows, round(flags.seconds * RATE)))
    return noise.astype(np.float32)


def txjax_work(name: str, flags: argparse.Namespace) -> Callable[[], Any]:
    """The front end of this name in `txjax.nn.audio.front_ends`, jitted."""
    from txjax.backend import jit, prepare

    prepare()
    import jax
    import jax.numpy as jnp

    from txjax.nn.audio import front_ends

    front_end = getattr(front_ends, name)()
    audio = jnp.asarray(waveforms(flags))
    length = jnp.full(len(audio), audio.shape[1], jnp.int32)
    program = jit(lambda audio, length: front_end(audio, length))
    return lambda: jax.block_until_ready(program(audio, length))


def transformers_work(name: str, flags: argparse.Namespace) -> Callable[[], Any]:
    """The extractor of transformers with its default settings."""
    import torch
    import transformers

    torch.set_num_threads(1)
    kind, options = EXTRACTORS[name]
    extractor = getattr(transformers, kind)()
    rows = list(waveforms(flags))
    return lambda: extractor(rows, sampling_rate=RATE, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default=",".join(EXTRACTORS))
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--clock", choices=tuple(contenders.CLOCKS), default="wall")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.contender:
        work = txjax_work if flags.contender == "txjax" else transformers_work
        contenders.serve(lambda: (work(flags.names, flags), {}), contenders.CLOCKS[flags.clock])
        return
    from txjax.log.terminal_table import table

    rows = []
    for name in flags.names.split(","):
        command = [sys.executable, __file__, *sys.argv[1:], f"--names={name}"]
        commands = {contender: [*command, f"--contender={contender}"] for contender in CONTENDERS}
        facts, failures = contenders.race(commands, flags.rounds, flags.steps)
        for contender, error in failures.items():
            print(f"{name}: {contender} failed: {error}", file=sys.stderr)
        if failures:
            continue
        seconds = [facts[contender]["seconds"] for contender in CONTENDERS]
        times = [f"{1e3 * statistics.median(measured):.1f}" for measured in seconds]
        rows.append([name, *times, f"{contenders.ratio(*seconds):.2f}"])
    title = f"milliseconds ({flags.clock}), {flags.rows} x {flags.seconds:g} s, float32, {flags.rounds} rounds"
    table(title, ["front end", *CONTENDERS, "ratio"], rows)


if __name__ == "__main__":
    main()
