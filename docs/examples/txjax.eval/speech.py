"""Word error rates of recordings."""

import json
from pathlib import Path

import numpy as np
import soundfile

import txjax
from txjax.data import AudioFolder, Utterances
from txjax.decoding import BestPath
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.conformer import Conformer
from txjax.nn import TokenClasses
from txjax.nn.audio.front_ends import telephone
from txjax.objectives import CTC

Path("speech").mkdir()
for split in ("train", "test"):
    rows = []
    for n in range(8):
        soundfile.write(f"speech/{split}{n}.wav", np.sin(np.arange(8000.0) * (n + 1) / 10) / 2, samplerate=8000)
        rows.append({"audio": f"{split}{n}.wav", "text": ("one", "two")[n % 2]})
    Path(f"speech/{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

speech = dict(source=AudioFolder("speech"), rate=8000, samples=8000, length=8)
test = Utterances(**speech, split="test")
experiment = Experiment(
    model=Conformer(width=16, depth=1, heads=2, front_end=telephone(), head=TokenClasses(test.vocab() + 1)),
    objective=CTC(),
    data=Utterances(**speech),
    evals={"words": ErrorRates(data=test, search=BestPath())},
    batch_size=4,
    trackers=(),
)
scores = txjax.fit(experiment, "runs/speech", until=2).evaluate()
print([score for score in sorted(scores) if score.startswith("eval/words/wer")])
# ['eval/words/wer', 'eval/words/wer_deletions', 'eval/words/wer_insertions', 'eval/words/wer_substitutions']
