"""A tokenizer of one's own as the files in which Hugging Face's transformers saves one."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from txjax.data.tokenizers.library_tokenizer import LibraryTokenizer
from txjax.data.tokenizers.tokenizer_folder import FILE, SETTINGS
from txjax.io.files import replace_text


def write_tokenizer(tokenizer: LibraryTokenizer, folder: Path) -> None:
    """Writes `tokenizer.json` and `tokenizer_config.json`, which `TokenizerFolder` and transformers read.

    Around a text stand [CLS] and [SEP] if the tokenizer has both.

    Raises:
      UserError: the tokenizer can't be loaded, as its data are gone.
    """
    from tokenizers import Tokenizer, processors

    library = tokenizer.load()
    written = Tokenizer.from_str(library.whole.to_str())
    frame = [(name, library.special_names.get(name)) for name in ("[CLS]", "[SEP]")]
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
