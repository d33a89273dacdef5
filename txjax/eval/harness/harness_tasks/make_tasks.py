"""Writes the documents of the five tasks, always the same ones: `python make_tasks.py` in this folder."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Document = dict[str, Any]

TRAIN = 8  # documents for prompts, the first ones
NOUNS = (
    "ant apple bridge candle cloud desk engine feather garden hammer island jacket kettle lantern mirror needle orange "
    "paper quilt river saddle table umbrella violin window yarn zebra book cat door egg fox gate hat ink jar key leaf"
)
WORDS = NOUNS.split()
CODE = (
    ("for {name}", "in"),
    ("for _, {name}", "in"),
    ("from {name}", "import"),
    ("import {name}", "as"),
    ("x = 1 if {name}", "else"),
    ("assert {name} is", "not"),
    ("with open({name})", "as"),
    ("print([x for x", "in"),
    ("{name} = lambda x: x if x", "else"),
    ("while {name}:\n    pass\n", "else:"),
    ("try:\n    {name}()\n", "except"),
    ("@property\n", "def"),
)
NAMES = ("item", "value", "row", "path", "result", "index")
PROSE = (
    "The bridge was closed for a year. When it opened again, the first to cross it was a man with a dog, who did not "
    "know that it had been closed at all.",
    "Water boils at a lower temperature on a mountain than at the sea, because there is less air above it. So an egg "
    "takes longer to cook the higher you are.",
    "A library lends books, and a reader brings them back. Most of them come back in time; a few come back after "
    "years, in a parcel, without a name.",
    "To find a word in a dictionary, open it in the middle. If the word comes earlier, look in the first half, else in "
    "the second, and do the same again.",
    "In the morning the fog lay over the fields, and only the tower could be seen. By noon it had gone, and one could "
    "count the sheep on the other side.",
    "A good test is small and fails for one reason. If it fails, you should know from its name what is wrong, before "
    "you have read a line of it.",
    "The train left at nine and arrived at eleven. It stopped four times, and at each stop the same woman got out, "
    "looked at the clock, and got in again.",
    "Bread needs flour, water, salt and time. The first three can be bought; the last one has to be waited for, and "
    "most of the taste comes from it.",
    "If you draw a map of a coast with a shorter ruler, the coast becomes longer, since more of its bays are counted. "
    "It has no length of its own.",
    "The clock in the hall was ten minutes slow. Everyone who lived there knew it, so no one was ever late, and no one "
    "had it repaired.",
)


def arithmetic(rng: random.Random) -> Iterator[Document]:
    for number in range(60):
        first = rng.randrange(1, 50)
        second = rng.randrange(1, 50)
        first, second = max(first, second), min(first, second)
        sign, right = ("+", first + second) if number % 2 else ("-", first - second)
        choices = [str(right + off) for off in (0, rng.choice((1, -1)), rng.choice((2, -2)), 10)]
        rng.shuffle(choices)
        yield {"question": f"{first} {sign} {second} =", "choices": choices, "answer": choices.index(str(right))}


def copying(rng: random.Random) -> Iterator[Document]:
    for _ in range(48):
        yield {"words": " ".join(rng.sample(WORDS, rng.randrange(2, 4)))}


def keywords(rng: random.Random) -> Iterator[Document]:
    pairs = sorted({(code.format(name=name), keyword) for code, keyword in CODE for name in NAMES})
    rng.shuffle(pairs)
    for code, keyword in pairs[:48]:
        yield {"code": code, "keyword": keyword}


def prose(rng: random.Random) -> Iterator[Document]:
    for text in PROSE:
        yield {"text": text}


def rules(rng: random.Random) -> Iterator[Document]:
    for number in range(56):
        first, second = rng.sample(WORDS, 2)
        while len(first) == len(second) or first[-1] == second[-1]:
            first, second = rng.sample(WORDS, 2)
        question, choices, right = (
            (f"Which word is longer, {first} or {second}?", [first, second], max(first, second, key=len)),
            (f"Which word is first in the alphabet, {first} or {second}?", [first, second], min(first, second)),
            (f"What is the last letter of {first}?", sorted({first[-1], second[-1]}), first[-1]),
        )[number % 3]
        yield {"question": question, "choices": choices, "answer": choices.index(right)}


PROMPTED = (arithmetic, copying, rules)  # tasks that need documents for prompts
TASKS = (*PROMPTED, keywords, prose)


def file_contents() -> dict[str, str]:
    """The content of each file, by name."""
    files = {}
    for task in TASKS:
        documents = list(task(random.Random(task.__name__)))
        train = TRAIN if task in PROMPTED else 0
        lines = [
            json.dumps({"split": "train" if i < train else "test"} | document) for i, document in enumerate(documents)
        ]
        files[f"{task.__name__}.jsonl"] = "\n".join(lines) + "\n"
    return files


if __name__ == "__main__":
    for name, content in file_contents().items():
        Path(__file__).with_name(name).write_text(content, encoding="utf-8")
