"""A small ViLBERT of NLVR: is a statement on a picture of three boxes with blocks true (Suhr et al. 2017)?

    txjax train --config=configs/multimodal/vilbert_nlvr.py --workdir=runs/vilbert_nlvr

The data is the prepared set `nlvr`, in TFDS_DATA_DIR or `--config.data.data_dir`: 2,963 statements to train on, 990
held out. The tokenizer is trained on the statements. `shuffled` are the held-out statements with the pictures of
others, which says what the text alone gives.

The commoner answer is right for 0.562 of the held-out ones; three-grams of the text alone for 0.566.

Cost: 1,000 updates of 32 statements.
Score: 0.562, the commoner answer, after 400 updates, and still after 2,000 with a rate of 1e-3 and the three boxes in
a random order: it does not learn to use the picture.
"""

from txjax.data import Flip, ImageQuestions, ShuffledImages, TemplateQuestions, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.multimodal.vilbert import GridRegions, ViLBERT
from txjax.models.text.bert import Bert
from txjax.nn import Classes, Learned, PreNorm, ProductPooler
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine

LENGTH = 28
VOCAB = 351  # all that the statements give
STEPS = 1000


def get_config() -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(), size=VOCAB, name="nlvr", split="train", features=("sentence",))
    held_out = ImageQuestions(split="validation")
    sizes = {"width": 96, "heads": 4, "block": PreNorm(), "dropout": 0.1}
    return Experiment(
        model=ViLBERT(
            text=Bert(vocab=VOCAB, depth=1, positions=Learned(max_length=LENGTH), head=None, **sizes),
            regions=GridRegions(patch=25),
            depth=3,
            head=Classes(2, ProductPooler(96)),
            **sizes,
        ),
        objective=Classification(),
        data=ImageQuestions(
            name="nlvr",
            split="train",
            questions=TemplateQuestions("{sentence}", "{label}"),
            answers=("false", "true"),
            length=LENGTH,
            tokenizer=tokenizer,
            shape=(100, 400, 3),
            transforms=(Flip(),),
        ),
        evals={
            "test": Evaluation(data=held_out, every_steps=STEPS // 5),
            "shuffled": Evaluation(data=ShuffledImages(held_out), every_steps=STEPS // 5),
        },
        optimizer=AdamW(peak_lr=5e-4, weight_decay=0.1, schedule=Cosine(warmup_steps=100, final=0.0)),
        num_steps=STEPS,
        batch_size=32,
        log_every_steps=50,
    )
