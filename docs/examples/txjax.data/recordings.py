"""Recordings.

Recordings of a folder have classes, or transcripts.
"""

import json
from pathlib import Path

import numpy as np
import soundfile

from txjax.data import AudioFolder, LabelledAudio, TextNormalization, Utterances

Path("speech").mkdir()
rows = []
for number, text in enumerate(["Hello, world!", "Good morning."]):
    soundfile.write(f"speech/{number}.wav", np.sin(np.arange(8000.0)) / 2, samplerate=8000)
    rows.append({"file_name": f"{number}.wav", "text": text, "speaker": "ab"[number]})
Path("speech/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

speech = dict(source=AudioFolder("speech"), rate=8000, samples=8000)
speakers = LabelledAudio(**speech, label="speaker")
example = speakers.open().example(0, epoch=0, rng=np.random.default_rng(0))
print(speakers.class_names(), example["audio"].shape, example["label"])
# ('a', 'b') (8000,) 0

normalization = TextNormalization(case="lower", punctuation="remove")
print(normalization("Hello,   World!"))  # hello world
utterances = Utterances(**speech, text="{text}", length=32, normalization=normalization)
example = utterances.open().example(0, epoch=0, rng=np.random.default_rng(0))
print(utterances.tokenizer.decode(example["transcript"][: example["transcript_length"]]))
# hello world
