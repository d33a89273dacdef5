"""Texts with labels.

Labels of a text, of a pair, or of one of several endings.
"""

import json
from pathlib import Path

import numpy as np

from txjax.data import Choices, JSONLines, LabelledText, Sentences

row = {
    "premise": "It rains.",
    "hypothesis": "It is wet.",
    "label": "entailment",
    "context": "She opened the door",
    "ending0": "and flew.",
    "ending1": "and went in.",
}
Path("train.jsonl").write_text("".join(json.dumps(row | {"ending": n % 2}) + "\n" for n in range(4)))
source = JSONLines("train.jsonl")
sets = (
    Sentences(source=source, text=("premise", "hypothesis"), length=32),
    LabelledText(source=source, text=("premise", "hypothesis"), length=32),
    Choices(source=source, context="{context}", choices=("{ending0}", "{ending1}"), label="ending", length=32),
)
for data in sets:
    example = data.open().example(0, epoch=0, rng=np.random.default_rng(0))
    print(type(data).__name__, {name: array.shape for name, array in example.items()})
# Sentences {'tokens': (32,), 'segments': (32,), 'types': (32,), 'weights': (32,)}
# LabelledText {'tokens': (32,), 'segments': (32,), 'types': (32,), 'weights': (), 'label': ()}
# Choices {'choice_tokens': (2, 32), 'choice_segments': (2, 32), 'choice_types': (2, 32), 'label': (), 'weights': ()}
