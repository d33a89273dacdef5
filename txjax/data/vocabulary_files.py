"""Tokenizers of vocabularies that were saved without a `tokenizer.json`, as transformers reads them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txjax.types import UserError, require

VOCABULARIES = ("vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")
# What stands around one text, by the class that reads a SentencePiece model: roles before and after it.
AROUND = {
    "AlbertTokenizer": (("cls",), ("sep",)),
    "CodeLlamaTokenizer": (("bos",), ()),
    "GemmaTokenizer": (("bos",), ()),
    "LlamaTokenizer": (("bos",), ()),
    "T5Tokenizer": ((), ("eos",)),
}
CONTROL, UNKNOWN, USER_DEFINED, UNIGRAM = 3, 2, 4, 1  # of SentencePiece's format
SPACE = "▁"


def read_vocabulary(path: Path, names: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    """The `tokenizers.Tokenizer` of a vocab.txt (BERT), a vocab.json with merges.txt (GPT-2, RoBERTa), or a
    SentencePiece model (Llama, T5).

    Args:
      names: special tokens by role, as far as a file says them.
      settings: the content of tokenizer_config.json.

    Raises:
      UserError: a SentencePiece model of a class that gives its pieces other ids, or of none.
    """
    if path.name == "vocab.txt":
        return _word_piece(path, names, settings)
    if path.name == "vocab.json":
        return _byte_pairs(path.parent, names, settings)
    return _sentence_piece(path, names, settings)


def _word_piece(path: Path, names: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

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
    cls, sep = (tokenizer.token_to_id(names[role]) for role in ("cls", "sep"))
    if cls is not None and sep is not None:
        tokenizer.post_processor = processors.BertProcessing((names["sep"], sep), (names["cls"], cls))
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
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    kind = str(settings.get("tokenizer_class", "")).removesuffix("Fast")
    if kind not in AROUND:
        hint = "transformers' AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes a tokenizer.json"
        expected = f"a tokenizer.json, or a tokenizer_class among {', '.join(AROUND)} for {path.name}"
        raise UserError("data.tokenizer.path", expected, kind or "none", hint=hint)
    proto = _proto(path)
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    prefix, charsmap = proto.normalizer_spec.add_dummy_prefix, proto.normalizer_spec.precompiled_charsmap
    if proto.trainer_spec.model_type == UNIGRAM:
        fallback = proto.trainer_spec.byte_fallback
        tokenizer = Tokenizer(models.Unigram(pieces, proto.trainer_spec.unk_id, fallback))
        steps = [normalizers.Precompiled(charsmap)] if charsmap else []
        spaces = [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), SPACE)]
        tokenizer.normalizer = normalizers.Sequence(steps + spaces)
        scheme = "always" if prefix else "never"
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, scheme)
        tokenizer.decoder = decoders.Metaspace(SPACE, scheme)
    else:
        ids = {piece: number for number, (piece, _) in enumerate(pieces)}
        unknown = pieces[proto.trainer_spec.unk_id][0]
        merges = _merges(pieces, ids)
        tokenizer = Tokenizer(models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
        begin = [normalizers.Prepend(SPACE)] if prefix else []
        tokenizer.normalizer = normalizers.Sequence([*begin, normalizers.Replace(" ", SPACE)])
        last = [decoders.Strip(" ", 1, 0)] if prefix else []
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *last]
        )
    for piece in proto.pieces:
        if piece.type in (CONTROL, UNKNOWN, USER_DEFINED):
            token = AddedToken(piece.piece, normalized=False, special=piece.type != USER_DEFINED)
            (tokenizer.add_tokens if piece.type == USER_DEFINED else tokenizer.add_special_tokens)([token])
    for _, token in sorted(settings.get("added_tokens_decoder", {}).items(), key=lambda item: int(item[0])):
        added = AddedToken(token["content"], normalized=False, special=token.get("special", False))
        (tokenizer.add_special_tokens if added.special else tokenizer.add_tokens)([added])
    if kind == "T5Tokenizer" and tokenizer.token_to_id("<extra_id_0>") is None:
        count = settings.get("extra_ids", 100)
        tokenizer.add_special_tokens([f"<extra_id_{number}>" for number in reversed(range(count))])
    names = {"bos": "<s>", "eos": "</s>", "cls": "[CLS]", "sep": "[SEP]"} | dict(names)
    before, after = ([names[role] for role in roles] for roles in AROUND[kind])
    before = before if settings.get("add_bos_token", True) else []
    after += [names["eos"]] if settings.get("add_eos_token", False) and names["eos"] not in after else []
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*before, "$A:0", *after],
        pair=_pair(before, after, kind == "AlbertTokenizer"),
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in {*before, *after}],
    )
    return tokenizer


def _pair(before: list[str], after: list[str], sentences: bool) -> list[str]:
    """What stands around a pair: in BERT's form each text ends with one token, else both are framed alike."""
    if sentences:
        return [f"{before[0]}:0", "$A:0", f"{after[0]}:0", "$B:1", f"{after[0]}:1"]
    return [*before, "$A:0", *after, *before, "$B:0", *after]


def _proto(path: Path) -> Any:
    """The content of a SentencePiece model."""
    require("sentencepiece", "sentencepiece", "data.tokenizer", extra="sentencepiece")
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.ParseFromString(path.read_bytes())
    return proto


def _merges(pieces: list[tuple[str, float]], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges of a vocabulary with scores: every way to make a piece of two others, the best pieces first."""
    found = []
    for piece, score in pieces:
        splits = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        known = [(left, right) for left, right in splits if left in ids and right in ids]
        found += [(score, pair) for pair in sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]]))]
    return [pair for _, pair in sorted(found, key=lambda item: -item[0])]


def _add_specials(tokenizer: Any, names: Mapping[str, str]) -> None:
    """Makes those of the names that are in the vocabulary special tokens."""
    from tokenizers import AddedToken

    known = [name for name in names.values() if tokenizer.token_to_id(name) is not None]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in known])
