"""Windows of documents.

The bytes of three documents, each with an end token: cut anywhere, or packed as documents and pieces of longer ones.
"""

import json
from pathlib import Path

import numpy as np

from txjax.data import Bytes, JSONLines, NextTokenPacked, NextTokenWindows, PackedText, TextWindows

documents = [{"text": "the cat"}, {"text": "sat on the mat"}, {"text": "and slept"}]
Path("train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
tokenizer = Bytes(specials=("[END]",))
for kind in (TextWindows, NextTokenWindows, PackedText, NextTokenPacked):
    data = kind(source=JSONLines("train.jsonl"), length=12, tokenizer=tokenizer, end="[END]")
    example = data.open().example(0, epoch=0, rng=np.random.default_rng(0))
    text = tokenizer.decode(example["tokens"]).replace("\ufffd", "|")
    print(kind.__name__, repr(text), "targets" in example, example["segments"].tolist())
# TextWindows 'the cat[END]sat ' False [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]
# NextTokenWindows 'the cat[END]sat ' True [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]
# PackedText 'the cat[END]at[END]\x00' False [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 0]
# NextTokenPacked 'the catat\x00\x00\x00' True [1, 1, 1, 1, 1, 1, 1, 2, 2, 0, 0, 0]
