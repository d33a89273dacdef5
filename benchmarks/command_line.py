"""Processor time of commands that only read flags, as multiples of the time of `import jax`, in turn with it.

python benchmarks/command_line.py [--rounds=5]
"""

import argparse
import resource
import statistics
import subprocess
import sys

COMMANDS = {
    "import jax": ["-c", "import jax"],
    "txjax --help": ["-m", "txjax", "--help"],
    "txjax train --help": ["-m", "txjax", "train", "--help"],
    "txjax generate --help": ["-m", "txjax", "generate", "--help"],
    "a misspelled field": [
        "-c",
        "from txjax.__main__ import run_program; run_program()",
        *("train", "--config=txjax:text/gpt_tiny", "--workdir=runs/none", "--config.batch_sise=3"),
    ],
}


def seconds(words: list[str]) -> float:
    """The processor time of one Python process, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    from txjax.log.terminal_table import table

    for words in COMMANDS.values():  # writes bytecode and fills the disk's cache
        seconds(words)
    turns = [{name: seconds(words) for name, words in COMMANDS.items()} for _ in range(rounds)]
    medians = {name: statistics.median(turn[name] for turn in turns) for name in COMMANDS}
    rows = [[name, f"{taken:.3f}", f"{taken / medians['import jax']:.2f}"] for name, taken in medians.items()]
    table(f"CPU seconds, medians of {rounds}", ["", "seconds", "/ import jax"], rows)


if __name__ == "__main__":
    main()
