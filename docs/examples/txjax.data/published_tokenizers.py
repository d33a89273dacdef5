"""Tokenizers of published models.

One is a folder as transformers saves it, one a file of SentencePiece.
"""

from pathlib import Path

import sentencepiece
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from txjax.data import SentencePieceFile, TokenizerFolder

words = Tokenizer(WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "small": 4, "text": 5}, unk_token="[UNK]"))
words.pre_tokenizer = Whitespace()
words.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
Path("published").mkdir()
words.save("published/tokenizer.json")
folder = TokenizerFolder(path="published")
print(folder.encode("a small text"), folder.special("[SEP]"))  # [3 4 5] 2

texts = iter(["a small text", "a smaller text", "the smallest of all texts"] * 20)
sentencepiece.SentencePieceTrainer.train(sentence_iterator=texts, model_prefix="t5", vocab_size=20, minloglevel=2)
file = SentencePieceFile(path="t5.model", specials=("<extra_id_0>",))
print(file.vocab(), file.special("<extra_id_0>"), file.decode(file.encode("a small text")))
# 21 20 a small text
