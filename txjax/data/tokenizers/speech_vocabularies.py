"""Tokenizers of models of speech that transformers saves without a `tokenizer.json`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txjax.errors import UserError
from txjax.io.json_files import load_json

CTC = "Wav2Vec2CTCTokenizer"
SPEECH = "Speech2TextTokenizer"


def read_characters(path: Path, names: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    """The `tokenizers.Tokenizer` of characters of a vocab.json of Wav2Vec2, where `|` stands for a space.

    Args:
      names: special tokens by role, as far as a file says them.
      settings: the content of tokenizer_config.json.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    delimiter = settings.get("word_delimiter_token", "|")
    unknown = names.get("unk", "<unk>")
    tokenizer = Tokenizer(models.WordLevel(read_ids(path), unk_token=unknown))
    tokenizer.normalizer = normalizers.Replace(" ", delimiter)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m)."), "isolated")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(delimiter, " "), decoders.Fuse()])
    return tokenizer


def renumber_pieces(proto: Any, path: Path) -> None:
    """Gives a SentencePiece model the ids of a vocab.json: its pieces, and special tokens that it has not.

    Raises:
      UserError: the file has not all pieces of text, or its ids are not 0, 1, ...
    """
    ids = read_ids(path)
    pieces = {piece.piece: piece for piece in proto.pieces}
    text = {name for name, piece in pieces.items() if piece.type == piece.NORMAL}
    if sorted(ids.values()) != list(range(len(ids))) or not text <= set(ids):
        expected = "the ids 0, 1, ... of special tokens and of all pieces of the model beside it"
        raise UserError("data.tokenizer.path", expected, str(path))
    ordered = []
    for name in sorted(ids, key=ids.__getitem__):
        piece = type(proto.pieces[0])(piece=name, type=proto.pieces[0].CONTROL)
        piece.CopyFrom(pieces.get(name, piece))
        ordered.append(piece)
    unknown = next(piece.piece for piece in proto.pieces if piece.type == piece.UNKNOWN)
    proto.ClearField("pieces")
    proto.pieces.extend(ordered)
    proto.trainer_spec.unk_id = ids[unknown]


def read_ids(path: Path) -> dict[str, int]:
    """The ids of a vocab.json by token. Raises UserError if it has others than whole numbers."""
    ids = load_json(path)
    if not isinstance(ids, dict) or not all(type(number) is int for number in ids.values()):
        raise UserError("data.tokenizer.path", f"whole numbers by token in {path}", type(ids).__name__)
    return ids
