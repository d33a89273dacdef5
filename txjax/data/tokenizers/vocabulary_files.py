"""Tokenizers of vocabularies that were saved without a `tokenizer.json`, as transformers reads them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from txjax.data.tokenizers.speech_vocabularies import CTC, SPEECH, read_characters, renumber_pieces
from txjax.errors import UserError, require

PIECES = "sentencepiece.bpe.model"  # whose ids are those of the vocab.json beside it
# Files with a vocabulary, and those that they need beside them; the first that are there are read.
VOCABULARIES = (
    ("vocab.txt",),
    ("vocab.json", "merges.txt"),
    ("tokenizer.model",),
    ("spiece.model",),
    (PIECES, "vocab.json"),
    ("vocab.json", "tokenizer_config.json"),
)
# The classes that read a SentencePiece model and keep its ids: those that put one special token at a text, by its
# role, and those of BERT's form.
MARKS = {
    "CodeLlamaTokenizer": "bos",
    "GemmaTokenizer": "bos",
    "LlamaTokenizer": "bos",
    SPEECH: "eos",
    "T5Tokenizer": "eos",
}
SENTENCES = ("AlbertTokenizer",)
# Types of pieces in SentencePiece's format.
UNKNOWN = 2
CONTROL = 3
USER_DEFINED = 4
ADDED = (UNKNOWN, CONTROL, USER_DEFINED)
UNIGRAM = 1  # a type of models
SPACE = "▁"


def read_vocabulary(path: Path, names: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    """The `tokenizers.Tokenizer` of a vocab.txt (BERT), a vocab.json with merges.txt (GPT-2, RoBERTa) or of characters
    (Wav2Vec2), or a SentencePiece model (Llama, T5, Speech2Text).

    Args:
      names: special tokens by role, as far as a file says them.
      settings: the content of tokenizer_config.json.

    Raises:
      UserError: a vocabulary of a class that gives its pieces other ids, or of none.
    """
    if path.name == "vocab.txt":
        return _word_piece(path, names, settings)
    if path.name != "vocab.json":
        return _sentence_piece(path, names, settings)
    if path.with_name("merges.txt").is_file():
        return _byte_pairs(path.parent, names, settings)
    _class_among((CTC,), path, settings)
    tokenizer = read_characters(path, names, settings)
    _add_specials(tokenizer, {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>"} | dict(names))
    return tokenizer


def _word_piece(path: Path, names: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    names = {"unk": "[UNK]", "pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"} | dict(names)
    tokenizer = Tokenizer(models.WordPiece.from_file(str(path), unk_token=names["unk"]))
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    _add_specials(tokenizer, names)
    _put_sentence_marks(tokenizer, names)
    return tokenizer


def _byte_pairs(folder: Path, names: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    spaced = settings.get("add_prefix_space", False)
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    _add_specials(tokenizer, {"eos": "<|endoftext|>"} | dict(names))
    cls, sep = (tokenizer.token_to_id(names[role]) if role in names else None for role in ("cls", "sep"))
    if cls is not None and sep is not None:
        around = (names["sep"], sep), (names["cls"], cls)
        tokenizer.post_processor = processors.RobertaProcessing(*around, add_prefix_space=spaced)
    return tokenizer


def _sentence_piece(path: Path, names: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    kind = _class_among((*SENTENCES, *MARKS), path, settings)
    proto = _proto(path)
    if kind == SPEECH:
        renumber_pieces(proto, path.with_name("vocab.json"))
    tokenizer = (_unigram if proto.trainer_spec.model_type == UNIGRAM else _scored_pairs)(proto)
    _add_tokens(tokenizer, [(piece.piece, piece.type != USER_DEFINED) for piece in proto.pieces if piece.type in ADDED])
    further = sorted(settings.get("added_tokens_decoder", {}).items(), key=lambda item: int(item[0]))
    _add_tokens(tokenizer, [(token["content"], token.get("special", False)) for _, token in further])
    if kind == "T5Tokenizer" and tokenizer.token_to_id("<extra_id_0>") is None:
        sentinels = reversed(range(settings.get("extra_ids", 100)))
        _add_tokens(tokenizer, [(f"<extra_id_{number}>", True) for number in sentinels])
    names = {"bos": "<s>", "eos": "</s>", "cls": "[CLS]", "sep": "[SEP]"} | dict(names)
    if kind in SENTENCES:
        _put_sentence_marks(tokenizer, names)
    else:
        added = {role: settings.get(f"add_{role}_token", role == MARKS[kind]) for role in ("bos", "eos")}
        put_around(tokenizer, *(names[role] if added[role] else None for role in ("bos", "eos")))
    return tokenizer


def _class_among(known: Sequence[str], path: Path, settings: Mapping[str, Any]) -> str:
    """The `tokenizer_class`. Raises UserError if it is none of the known ones."""
    kind = str(settings.get("tokenizer_class", "")).removesuffix("Fast")
    if kind not in known:
        hint = "transformers' AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes a tokenizer.json"
        expected = f"a tokenizer.json, or a tokenizer_class among {', '.join(known)} for {path.name}"
        raise UserError("data.tokenizer.path", expected, kind or "none", hint=hint)
    return kind


def _unigram(proto: Any) -> Any:
    """The tokenizer of a Unigram model, with its normalizer."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    tokenizer = Tokenizer(models.Unigram(pieces, proto.trainer_spec.unk_id, proto.trainer_spec.byte_fallback))
    charsmap = proto.normalizer_spec.precompiled_charsmap
    spaces = [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), SPACE)]
    tokenizer.normalizer = normalizers.Sequence([*([normalizers.Precompiled(charsmap)] if charsmap else []), *spaces])
    scheme = "always" if proto.normalizer_spec.add_dummy_prefix else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, scheme)
    tokenizer.decoder = decoders.Metaspace(SPACE, scheme)
    return tokenizer


def _scored_pairs(proto: Any) -> Any:
    """The tokenizer of a BPE model, whose scores say the order of its merges."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    ids = {piece: number for number, (piece, _) in enumerate(pieces)}
    unknown = pieces[proto.trainer_spec.unk_id][0]
    merges = _merges(pieces, ids)
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefix = proto.normalizer_spec.add_dummy_prefix
    begin = [normalizers.Prepend(SPACE)] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*begin, normalizers.Replace(" ", SPACE)])
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, *([decoders.Strip(" ", 1, 0)] if prefix else [])])
    return tokenizer


def _put_sentence_marks(tokenizer: Any, names: Mapping[str, str]) -> None:
    """Makes a tokenizer put BERT's special tokens around texts, if its vocabulary has them."""
    from tokenizers import processors

    cls, sep = (tokenizer.token_to_id(names[role]) for role in ("cls", "sep"))
    if cls is not None and sep is not None:
        tokenizer.post_processor = processors.BertProcessing((names["sep"], sep), (names["cls"], cls))


def put_around(tokenizer: Any, before: str | None, after: str | None) -> None:
    """Makes a `tokenizers.Tokenizer` put special tokens before and after each text; of None, it puts none."""
    from tokenizers import processors

    first, last = ([name] if name is not None else [] for name in (before, after))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*first, "$A", *last],
        pair=[*first, "$A", *last, *(f"{name}:1" for name in first), "$B:1", *(f"{name}:1" for name in last)],
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in {*first, *last}],
    )


def _proto(path: Path) -> Any:
    """The content of a SentencePiece model."""
    require("sentencepiece", "sentencepiece", "data.tokenizer", extra="sentencepiece")
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.ParseFromString(path.read_bytes())
    return proto


def _merges(pieces: list[tuple[str, float]], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges of a vocabulary with scores: every way to make a piece of two others, the best pieces first."""
    merges = []
    for piece, score in pieces:
        splits = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        known = [(left, right) for left, right in splits if left in ids and right in ids]
        merges += [(score, pair) for pair in sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]]))]
    return [pair for _, pair in sorted(merges, key=lambda item: -item[0])]


def _add_specials(tokenizer: Any, names: Mapping[str, str]) -> None:
    """Makes those of the names that are in the vocabulary special tokens."""
    _add_tokens(tokenizer, [(name, True) for name in names.values() if tokenizer.token_to_id(name) is not None])


def _add_tokens(tokenizer: Any, tokens: Sequence[tuple[str, bool]]) -> None:
    """Adds tokens, which are matched in a text before it is split: each with whether it is a special one."""
    from tokenizers import AddedToken

    for name, special in tokens:
        added = AddedToken(name, normalized=False, special=special)
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([added])
