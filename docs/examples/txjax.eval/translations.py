"""Written translations.

The score chrF of what an encoder-decoder writes, and how many texts are right.
"""

import json
from pathlib import Path

import txjax
from txjax.data import Bytes, JSONLines, Pairs
from txjax.decoding import Beam
from txjax.eval import GeneratedTexts
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.objectives import NextToken

rows = [{"en": f"{n} cats", "de": f"{n} Katzen"} for n in range(100)]
Path("cats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
texts = dict(
    source=JSONLines("cats.jsonl"),
    source_text="{en}",
    target_text="{de}",
    tokenizer=Bytes(specials=("[START]", "[END]")),
    source_length=12,
    length=12,
)
experiment = Experiment(
    model=EncoderDecoder(vocab=258, width=32, depth=1, heads=4),
    objective=NextToken(),
    data=Pairs(**texts),
    evals={
        "written": GeneratedTexts(Pairs(**texts, split="test"), metrics=("chrf", "exact_match"), search=Beam(size=2))
    },
    batch_size=8,
    trackers=(),
)
print(sorted(txjax.fit(experiment, "runs/cats", until=2).evaluate()))
# ['eval/written/chrf', 'eval/written/exact_match']
