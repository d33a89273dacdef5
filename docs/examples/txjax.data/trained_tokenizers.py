"""Trained tokenizers.

They are trained on the texts of a data set when they are first needed.
"""

from pathlib import Path

from txjax.data import BPE, TextFiles, Trained, Unigram, WordPiece

Path("train.txt").write_text("low lower lowest\nnew newer newest\nwide wider widest\n" * 50)
for algorithm in (BPE(), WordPiece(), Unigram()):
    tokenizer = Trained(source=TextFiles("train.txt"), size=300 if algorithm == BPE() else 40, algorithm=algorithm)
    ids = tokenizer.encode("newest lowest")
    print(type(algorithm).__name__, [tokenizer.decode([i]) for i in ids])
# BPE ['ne', 'west', ' lowest']
# WordPiece ['newest', 'lowest']
# Unigram ['newe', 's', 't', 'lowe', 's', 't']
