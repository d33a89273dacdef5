"""A small ViLBERT of canvases of digits: how many digits are there, and is there a 3?

    txjax train --config=configs/multimodal/vilbert_canvases.py --workdir=runs/vilbert_canvases

Questions of both kinds take turns, and the answer is one of five classes. `shuffled` are the held-out questions with
the images of others, which says what the text alone gives. The canvases are made once (docs/data.md).

The commonest answer to each kind of question is right for 0.566 of the held-out ones.

Cost: 3 minutes of a CPU core.
Score: eval/test/accuracy 0.852.
Bound: eval/shuffled/accuracy 0.60, with the images of other questions (0.578 here).
"""

from txjax.data import AlternatingQuestions, ImageQuestions, PresenceQuestions, ShuffledImages, TemplateQuestions
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.multimodal.vilbert import GridRegions, ViLBERT
from txjax.models.text.bert import Bert
from txjax.nn import Classes, Learned, PreNorm, ProductPooler
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine

ANSWERS = ("no", "yes", "1", "2", "3")
LENGTH = 32
STEPS = 600


def get_config() -> Experiment:
    count = TemplateQuestions("How many digits are there?", "{count}", kind="counting")
    held_out = ImageQuestions(split="test")
    sizes = {"width": 64, "heads": 4, "block": PreNorm()}
    return Experiment(
        model=ViLBERT(
            text=Bert(vocab=258, depth=1, positions=Learned(max_length=LENGTH), head=None, **sizes),
            regions=GridRegions(patch=8),
            depth=3,
            head=Classes(len(ANSWERS), ProductPooler(64)),
            **sizes,
        ),
        objective=Classification(),
        data=ImageQuestions(
            name="txjax_canvases",
            split="train",
            questions=AlternatingQuestions((PresenceQuestions(), count)),
            answers=ANSWERS,
            length=LENGTH,
            shape=(64, 64, 1),
            mean=(0.2,),
            std=(0.25,),
        ),
        evals={
            "test": Evaluation(data=held_out, every_steps=STEPS // 3),
            "shuffled": Evaluation(data=ShuffledImages(held_out), every_steps=STEPS // 3),
        },
        optimizer=AdamW(peak_lr=1e-3, weight_decay=0.01, schedule=Cosine(warmup_steps=100, final=0.0)),
        num_steps=STEPS,
        batch_size=32,
        log_every_steps=50,
    )
