"""Sources and targets.

A text and the text that follows from it, for an encoder-decoder and for a decoder.
"""

import json
from pathlib import Path

import numpy as np

from txjax.data import Bytes, Completions, JSONLines, Pairs

rows = [{"en": "good morning", "de": "guten Morgen"}, {"en": "thank you", "de": "danke"}]
Path("train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
source, tokenizer = JSONLines("train.jsonl"), Bytes(specials=("[START]", "[END]"))

pairs = Pairs(source=source, source_text="{en}", target_text="{de}", tokenizer=tokenizer, source_length=16, length=16)
example = pairs.open().example(0, epoch=0, rng=np.random.default_rng(0))
print(tokenizer.decode(example["source_tokens"][:12]), "->", tokenizer.decode(example["targets"][:12]))
# good morning -> guten Morgen

completions = Completions(source=source, prompt="{en} = ", answer="{de}", tokenizer=tokenizer, end="[END]", length=32)
example = completions.open().example(0, epoch=0, rng=np.random.default_rng(0))
print(tokenizer.decode(example["tokens"][:27]), int(example["weights"].sum()))
# good morning = guten Morgen 13
