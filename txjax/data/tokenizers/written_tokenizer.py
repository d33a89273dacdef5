"""A tokenizer of one's own as the files in which Hugging Face's transformers saves one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.data.tokenizers.library_tokenizer import LibraryTokenizer
from txjax.data.tokenizers.tokenizer import Bytes
from txjax.data.tokenizers.tokenizer_folder import FILE, SETTINGS
from txjax.io.files import replace_text

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def write_tokenizer(tokenizer: LibraryTokenizer | Bytes, folder: Path) -> None:
    """Writes `tokenizer.json` and `tokenizer_config.json`, which `TokenizerFolder` and transformers read.

    Around a text stand [CLS] and [SEP] if the tokenizer has both.

    Raises:
      UserError: the tokenizer can't be loaded, as its data are gone.
    """
    from tokenizers import Tokenizer, processors

    if isinstance(tokenizer, Bytes):
        written = _of_bytes(tokenizer)
    else:
        written = Tokenizer.from_str(tokenizer.load().whole.to_str())
    special_names = tokenizer.special_names()
    frame = [(name, special_names.get(name)) for name in ("[CLS]", "[SEP]")]
    if all(number is not None for _, number in frame) and written.post_processor is None:
        written.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=frame
        )
    roles: dict[str, Any] = dataclasses.asdict(tokenizer.roles())
    roles["eos"] = next(iter(roles["eos"]), None)
    names = {f"{role}_token": written.id_to_token(number) for role, number in roles.items() if number is not None}
    # Spaces are the tokenizer's own: transformers would remove those before punctuation.
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **names}
    replace_text(folder / FILE, written.to_str(pretty=True))
    replace_text(folder / SETTINGS, json.dumps(settings, indent=2) + "\n")


def _of_bytes(tokenizer: Bytes) -> Tokenizer:
    """A byte-level BPE without merges: each byte is a character of GPT-2's alphabet (Radford et al. 2019)."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]  # they stand for themselves
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
    written = Tokenizer(models.BPE(vocab=letters, merges=[]))
    written.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    written.decoder = decoders.ByteLevel()
    written.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in tokenizer.specials])
    return written
