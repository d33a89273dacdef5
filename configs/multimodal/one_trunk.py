"""One small Transformer that reads scanned digits and the questions of a bank's customers, and classifies both.

    txjax train --config=configs/multimodal/one_trunk.py --workdir=runs/one_trunk

Every batch has 32 digits of scikit-learn's (8x8 pixels, ten classes) and 32 questions of banking77 (77 classes), which
must be prepared in TFDS_DATA_DIR; its tokenizer is trained on them.

Cost: about 80 seconds on two CPU cores.
Score: eval/images/accuracy 0.970 of the held-out digits, eval/texts/accuracy 0.832 of the held-out questions.
"""

from txjax.data import Images, LabelledText, Tasks, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.multimodal.shared_trunk.shared_trunk import SharedTrunk
from txjax.nn import Classes, Learned, MeanTokens
from txjax.objectives import Classification, MultiTask
from txjax.optim import AdamW, Cosine

LENGTH = 48


def get_config() -> Experiment:
    digits = dict(shape=(8, 8, 1), mean=(0.3,), std=(0.35,))
    tokenizer = Trained(algorithm=WordPiece(), size=2000, name="banking77", split="train")
    questions = dict(text=("text",), classes=77, length=LENGTH, tokenizer=tokenizer, buckets=(24,))
    return Experiment(
        model=SharedTrunk(
            vocab=2000,
            patch=2,
            tasks={"images": Classes(10, MeanTokens()), "texts": Classes(77, MeanTokens())},
            width=64,
            depth=2,
            heads=4,
            dropout=0.1,
            positions=Learned(max_length=LENGTH),
            image_positions=Learned(max_length=16),
        ),
        objective=MultiTask(tasks={"images": Classification(), "texts": Classification()}),
        data=Tasks(
            parts={
                "images": Images(name="txjax_digits", split="train", **digits),
                "texts": LabelledText(name="banking77", split="train", **questions),
            },
        ),
        evals={
            "images": Evaluation(task="images", data=Images(split="test", **digits), every_steps=500),
            "texts": Evaluation(task="texts", data=LabelledText(split="test", **questions), every_steps=500),
        },
        optimizer=AdamW(peak_lr=3e-3, weight_decay=0.05, schedule=Cosine(warmup_steps=50, final=0.0)),
        num_steps=1500,
        batch_size=32,
        log_every_steps=50,
    )
