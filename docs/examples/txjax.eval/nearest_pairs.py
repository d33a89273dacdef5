"""Retrieval.

Which text belongs to an image, and which text is a translation: the nearest by the cosine.
"""

import json
from pathlib import Path

import numpy as np
from PIL import Image

import txjax
from txjax.data import Bytes, CaptionedImages, ImageFolder, JSONLines, Sentences
from txjax.eval import ImageTextRetrieval, Retrieval
from txjax.experiment import Experiment
from txjax.models.multimodal.two_towers import TwoTowers
from txjax.models.text.bert import Bert
from txjax.models.vision.vit import ViT
from txjax.nn import MeanTokens, Projected
from txjax.objectives import SoftmaxContrastive

Path("photos").mkdir()
lines = []
for n in range(40):
    Image.fromarray(np.full([16, 16, 3], 6 * n, np.uint8)).save(f"photos/{n}.png")
    lines.append({"file_name": f"{n}.png", "caption": f"grey {n}", "german": f"grau {n}"})
Path("photos/metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

tokenizer = Bytes(specials=("[CLS]", "[SEP]"))
photos = dict(source=ImageFolder("photos"), shape=(16, 16, 3), tokenizer=tokenizer, length=16)
head = Projected(16, MeanTokens())
experiment = Experiment(
    model=TwoTowers(
        vision=ViT(patch=8, width=32, depth=1, heads=4, head=head),
        text=Bert(vocab=258, width=32, depth=1, heads=4, head=head),
    ),
    objective=SoftmaxContrastive(),
    data=CaptionedImages(**photos),
    evals={"pairs": ImageTextRetrieval(data=CaptionedImages(**photos, split="test"), at=(1, 5))},
    batch_size=8,
    trackers=(),
)
scores = txjax.fit(experiment, "runs/photos", until=2).evaluate()
print([score.rpartition("/")[2] for score in sorted(scores)])
# ['image_to_text_r1', 'image_to_text_r5', 'text_to_image_r1', 'text_to_image_r5', 'twins']

# For a model of texts in two languages: the same rows in both.
rows = dict(source=JSONLines("photos/metadata.jsonl"), split="test", tokenizer=tokenizer, length=16)
english, german = Sentences(**rows, text=("caption",)), Sentences(**rows, text=("german",))
print(Retrieval(data=english, translations=german).every_steps)  # 100
