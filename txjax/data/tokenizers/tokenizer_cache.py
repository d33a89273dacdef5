"""The cache of trained tokenizers: a folder `tokenizers/KEY` under the cache directory for each.

tokenizer.json  the tokenizer, as the `tokenizers` library saves it
made_from.json  the settings and the fingerprint of the texts that it depends on
digests.json    digests of the other files
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax import tree
from txjax.data.loading import disk_cache
from txjax.data.sources.record_source import Records
from txjax.data.tfds.text_sequences import TextSequence, text_sequences
from txjax.data.tokenizers.library_tokenizer import Library
from txjax.data.tokenizers.tokenizer import as_string
from txjax.data.tokenizers.vocabulary_training import LONGEST_WORD, has_long_word
from txjax.errors import UserError

if TYPE_CHECKING:
    from txjax.data.tokenizers.trained_tokenizers import Trained

logger = logging.getLogger(__name__)

LAYOUT = 1  # version of the files; cached tokenizers of other versions are not used
BATCH = 512  # records read at a time


def open_trained(settings: "Trained") -> Library:
    """The tokenizer of these settings from the cache; trains it if it is missing or damaged.

    Raises:
      UserError: settings, a data set or texts that no such tokenizer can be trained on.
    """
    settings.check()
    sequences = text_sequences(settings.record_split.check())
    names = [sequences[name].feature if name in sequences else name for name in settings.features]
    source = settings.record_split.open(names)
    made_from = {
        "layout": LAYOUT,
        "split": settings.split,
        "features": list(settings.features),
        "records": source.fingerprint,
        "algorithm": tree.to_json(settings.algorithm),
        "size": settings.size,
        "specials": list(settings.specials),
    }
    folder = disk_cache.get_or_build(
        "tokenizers", made_from, lambda aside: _train(aside, settings, source, sequences), lambda path: path
    )
    import tokenizers

    return Library(tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")))


def _train(folder: Path, settings: "Trained", source: Records, sequences: dict[str, TextSequence]) -> None:
    long: set[int] = set()

    def text_of(record: dict[str, Any], name: str) -> str:
        """The text of a feature; of a sequence, with spaces between the texts."""
        return " ".join(map(as_string, sequences[name].texts(record) if name in sequences else [record[name]]))

    def texts() -> Iterator[list[str]]:
        with disk_cache.progress(
            f"{type(settings.algorithm).__name__} of {source.name} {settings.split}", len(source)
        ) as bar:
            for start in range(0, len(source), BATCH):
                read = source.read(start, min(start + BATCH, len(source)))
                batch = [[text_of(record, name) for name in settings.features] for record in read]
                long.update(start + i for i, texts in enumerate(batch) if any(map(has_long_word, texts)))
                yield [text for texts in batch for text in texts]
                bar(len(read))

    tokenizer = settings.algorithm.train(texts, settings.size, list(settings.specials))
    if long:
        first = source.place(min(long))
        text = "%d records have words of more than %d characters, which are learned from in pieces; the first: %s"
        logger.warning(text, len(long), LONGEST_WORD, first)
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if size > settings.size:
        raise UserError("data.tokenizer.size", f"at least {size}, for the characters of the text", settings.size)
    if size < settings.size:
        logger.warning("the text has only %d of the %d tokens of %s", size, settings.size, folder)
    assert [tokenizer.token_to_id(name) for name in settings.specials] == list(range(len(settings.specials)))
    tokenizer.save(str(folder / "tokenizer.json"))
