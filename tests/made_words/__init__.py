"""A tiny TFDS set for tests: words with classes, and questions whose answers are spans of a text."""

from pathlib import Path

TEXT = "Ada Lövelace wrote notes on the engine of Babbage ."
WORDS = TEXT.split()
TAGS = [2, 1, 0, 0, 0, 0, 0, 0, 2, -1]


def records(count: int) -> list[dict]:
    """Texts that begin at the word i, with the answer "Babbage"; each third question has no answer."""
    found = []
    for i in range(count):
        words, tags = WORDS[i % 9 :], TAGS[i % 9 :]
        text = " ".join(words)
        answers = [] if i % 3 == 2 else [{"text": "Babbage", "answer_start": text.index("Babbage")}]
        found.append({"words": words, "tags": tags, "question": "Who?", "context": text, "answers": answers})
        found[-1]["right"] = i % 3
    return found


def prepare(folder: Path) -> str:
    """Writes the set `made_words` (train 12, test 4) below a folder; returns that as `data_dir`."""
    from made_words.made_words_dataset_builder import Builder

    Builder(data_dir=folder).download_and_prepare(file_format="array_record")
    return str(folder)
