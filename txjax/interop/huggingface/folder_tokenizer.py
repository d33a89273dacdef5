"""The tokenizer of a Hugging Face folder, for the data of an imported model."""

from pathlib import Path

from txjax.data import TokenizerFolder
from txjax.errors import UserError


def folder_tokenizer(folder: Path, vocab: int) -> TokenizerFolder:
    """The tokenizer beside the weights.

    Args:
      vocab: tokens that the model has.

    Raises:
      UserError: there is none, or one of more tokens.
    """
    tokenizer = TokenizerFolder(path=str(folder.resolve()))
    try:
        tokenizer.check()
    except UserError as error:
        raise error.with_path("--from", "data.tokenizer.path") from None
    if tokenizer.vocab() > vocab:
        raise UserError("--from", f"a tokenizer.json of at most {vocab} tokens", tokenizer.vocab())
    return tokenizer
