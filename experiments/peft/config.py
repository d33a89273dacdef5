"""Fourteen ways to adapt one pretrained encoder to few labels, with equal updates and equally many rates tried.

    txjax train --config=experiments/peft/config.py:text-lora --workdir=runs/lora --config.init_from=runs/mlm_sentences
    txjax sweep --config=experiments/peft/config.py:text --workdir=runs/peft/text_rates --executor=population \\
        --config.init_from=runs/mlm_sentences

Variants: TASK-ARM is one arm; TASK is the sweep of all arms over the rates, scored on a fifth of the training split;
TASK-seeds is that of three seeds at the rates in `chosen.json` (`choose.py` writes it), scored on `test`. README.md has
all commands. `banking77` and `fashion_mnist` must be prepared in TFDS_DATA_DIR.
"""

import json
from pathlib import Path
from typing import NamedTuple

from txjax import sweep as axes
from txjax.checkpoint import Checkpoints
from txjax.data import Dataset, Flip, Images, LabelledText, PadCrop, Subset, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, Learned, MeanTokens, PreNorm, Sinusoidal2D
from txjax.nn.adapters import IA3, Adapter, Bottleneck, DeepPrompt, DoRA, LoRA, MLPPrefix, Prefix, Prompt, RsLoRA
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine, Group
from txjax.transfer import From

STEPS = 200
TRAIN, HELD_OUT = "train[:80%]", "train[80%:]"
RATES = (1e-3, 4e-3, 1.6e-2, 6.4e-2)
# One rate more for the arms that were best at an end of RATES.
FURTHER = {
    "text": {"full": 2.5e-4, "bitfit": 0.256, "ia3": 0.256, "houlsby": 0.256},
    "vision": {"scratch": 2.5e-4, "full": 2.5e-4, "prompt": 0.256, "deep_prompt": 0.256},
}
HEAD_RATES = (4e-3, 1.6e-2, 6.4e-2, 0.256, 1.024)  # of the probe, which has nothing else to train
HEAD = {"text": 6.4e-2, "vision": 0.256}  # the probe's best: the rate of the new head in all arms
TUNING = 3  # the seed at which rates are chosen
SEEDS = (0, 1, 2)


class Arm(NamedTuple):
    """What is trained beside the head.

    Attributes:
      trains: the paths of the parameters.
      base: whether it starts from the pretrained encoder.
    """

    adapter: Adapter | None = None
    trains: str = ".*"
    base: bool = True


ARMS = {
    "scratch": Arm(base=False),
    "full": Arm(),
    "probe": Arm(trains=""),
    "bitfit": Arm(trains=".*bias"),
    "lora": Arm(LoRA(), ".*/lora/.*"),
    "rslora": Arm(RsLoRA(), ".*/lora/.*"),
    "dora": Arm(DoRA(), ".*/dora/.*"),
    "ia3": Arm(IA3(), ".*/ia3/.*"),
    "houlsby": Arm(Bottleneck(), ".*/bottleneck/.*"),
    "pfeiffer": Arm(Bottleneck(paths=".*mlp/down"), ".*/bottleneck/.*"),
    "prompt": Arm(Prompt(), ".*prompt/.*"),
    "deep_prompt": Arm(DeepPrompt(), ".*prompt/.*"),
    "prefix": Arm(Prefix(), ".*prefix/.*"),
    "mlp_prefix": Arm(MLPPrefix(hidden=64), ".*prefix/.*"),
}
TASKS = ("text", "vision")
VARIANTS = tuple(f"{task}{of}" for task in TASKS for of in ("", "-seeds", *(f"-{arm}" for arm in ARMS)))


def get_config(variant: str = "text-full") -> Experiment:
    task, _, name = variant.partition("-")
    arm = ARMS.get(name, ARMS["full"])
    model, train, scored = (text if task == "text" else vision)(arm.adapter)
    return Experiment(
        model=model,
        objective=Classification(),
        data=train,
        evals={"score": Evaluation(data=scored, every_steps=STEPS, batch_size=250, max_batches=8)},
        optimizer=AdamW(
            peak_lr=2e-3,
            b2=0.99,
            weight_decay=0.0,
            schedule=Cosine(warmup_steps=20, final=0.0),
            groups=groups(arm.trains),
        ),
        init_from=From(omit=("head",)) if arm.base else None,
        checkpoint=Checkpoints(every_steps=STEPS, keep=1, frozen="origin"),
        trackers=(),
        seed=TUNING,
        num_steps=STEPS,
        batch_size=32,
        log_every_steps=50,
        on_nonfinite="raise",
    )


def groups(trains: str) -> tuple[Group, ...]:
    """The head, what else is trained, and what is frozen."""
    head, frozen = Group("head/.*"), Group(f"(?!head/)(?!({trains})$).*", trainable=False)
    if trains == ".*":
        return head, Group("(?!head/).*")
    return (head, Group(f"(?!head/)({trains})"), frozen) if trains else (head, frozen)


def text(adapter: Adapter | None) -> tuple[Bert, Dataset, Dataset]:
    """The encoder of `configs/text/mlm_sentences.py`, ten questions of each of 77 intents, and those to score.

    A population has no buckets of lengths, so that all batches have 32 positions.
    """
    tokenizer = Trained(algorithm=WordPiece(), size=2000, name="banking77", split="train")
    questions = dict(text=("text",), classes=77, length=32, tokenizer=tokenizer)
    model = Bert(
        vocab=2000,
        width=128,
        depth=2,
        heads=4,
        head=Classes(77, MeanTokens()),
        dropout=0.1,
        block=PreNorm(),
        positions=Learned(max_length=64),
        adapter=adapter,
    )
    train = LabelledText(name="banking77", split=TRAIN, subset=Subset(per_class=10, seed=TUNING), **questions)
    return model, train, LabelledText(split=HELD_OUT, **questions)


def vision(adapter: Adapter | None) -> tuple[ViT, Dataset, Dataset]:
    """The encoder of `configs/vision/mae_fashion.py`, a hundred images of each of 10 classes, and those to score."""
    clothes = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
    model = ViT(
        patch=4,
        head=Classes(10, MeanTokens()),
        width=64,
        depth=4,
        heads=4,
        class_token=None,
        positions=Sinusoidal2D(),
        adapter=adapter,
    )
    train = Images(
        name="fashion_mnist",
        split=TRAIN,
        transforms=(PadCrop(2), Flip()),
        subset=Subset(per_class=100, seed=TUNING),
        **clothes,
    )
    return model, train, Images(split=HELD_OUT, **clothes)


def sweep(variant: str = "text") -> list[dict]:
    """The arms at each rate; with `-seeds` each at its chosen rate, all of `test`, and all parameters saved."""
    task, _, what = variant.partition("-")
    if what != "seeds":
        return [point(task, arm, rate) for arm in ([what] if what else ARMS) for rate in rates(task, arm)]
    chosen = json.loads(Path(__file__).with_name("chosen.json").read_text(encoding="utf-8"))
    tuned = [point(task, arm, chosen[task][arm]) for arm in ARMS]
    scored = {"evals.score.data.split": "test", "evals.score.max_batches": None, "checkpoint.frozen": "saved"}
    return axes.grid(tuned, [{"seed": seed, "data.subset.seed": seed} | scored for seed in SEEDS])


def rates(task: str, arm: str) -> tuple[float, ...]:
    """All that are tried."""
    if arm == "probe":
        return HEAD_RATES
    return (*RATES, FURTHER[task][arm]) if arm in FURTHER[task] else RATES


def point(task: str, arm: str, rate: float) -> dict:
    """The arm's variant with this rate of all but the head. Without a base it takes none from the command's flag."""
    head = {} if arm == "probe" else {"optimizer.groups[0].lr": HEAD[task] / rate}
    base = {} if ARMS[arm].base else {"init_from": None}
    return {"variant": f"{task}-{arm}", "optimizer.peak_lr": rate} | head | base
