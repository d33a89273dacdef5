"""Three recognisers of speech at equal parameters and at equal compute, three losses, and two augmentations.

txjax sweep --config=experiments/asr/config.py --workdir=runs/asr --jobs=2
txjax report runs/asr --json > runs/asr.json
python experiments/asr/table.py runs/asr.json
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from txjax import sweep as axes
from txjax.checkpoint import Checkpoints
from txjax.data import AllBut, Chained, Characters, Only, Speed, Utterances
from txjax.decoding import Beam, BestPath, JointBeam
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.models.audio.branchformer import Branchformer, BranchformerBlock, ConvGatingMLP, LearnedAverage
from txjax.models.audio.conformer import Conformer, ConformerBlock, ConvModule
from txjax.models.audio.speech_transformer import speech2text
from txjax.nn import LayerNorm, TokenClasses
from txjax.nn.audio.front_ends import telephone
from txjax.nn.audio.spec_augment import AxisMasks, SpecAugment
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.objectives import CTC, JointCTC, NextToken
from txjax.optim import AdamW, Cosine

SPEAKER = "yweweler"  # whom the digits' training set doesn't have
MASKS = SpecAugment(frequency=AxisMasks(count=2, width=6), time=AxisMasks(count=2, width=10))
STEPS = {"digits": 1000, "prompts": 1000}
# Where a model takes other FLOPs than the Conformer: the updates that take as many as the Conformer's.
EQUAL_COMPUTE = {
    "branchformer_digits": 930,
    "branchformer_prompts": 867,
    "speech_transformer_digits": 1352,
    "speech_transformer_prompts": 1173,
}

TOKENIZER = Characters(" '" + "abcdefghijklmnopqrstuvwxyz", specials=("</s>",))
CLASSES = TokenClasses(TOKENIZER.vocab() + 1)  # and the blank
SIZES: dict[str, Any] = dict(width=64, heads=4, dropout=0.1)
READING: dict[str, Any] = dict(front_end=telephone(), subsampling=ImageSubsampling(channels=16))
FRAMES: dict[str, Any] = dict(**SIZES, **READING, head=CLASSES)
SPEECH_TRANSFORMER = speech2text(
    vocab=TOKENIZER.vocab(), depth=2, encoder={"depth": 3, **READING}, ctc_head=CLASSES, **SIZES
)
CONFORMER = Conformer(depth=3, block=ConformerBlock(conv=ConvModule(kernel=7, norm=LayerNorm())), **FRAMES)
BRANCHFORMER = Branchformer(
    depth=5, mlp=ConvGatingMLP(hidden=160, kernel=15), block=BranchformerBlock(merge=LearnedAverage()), **FRAMES
)


@dataclasses.dataclass
class Arm:
    """What is compared: a model, its loss, and the search that writes its texts."""

    model: Any
    objective: Any = dataclasses.field(default_factory=CTC)
    search: Any = dataclasses.field(default_factory=BestPath)


ARMS = {
    "conformer": Arm(CONFORMER),
    "branchformer": Arm(BRANCHFORMER),
    "speech_transformer": Arm(SPEECH_TRANSFORMER, JointCTC(), JointBeam(size=5)),
    "attention": Arm(SPEECH_TRANSFORMER.clone(ctc_head=None), NextToken(), Beam(5)),
    "ctc": Arm(AudioEncoder(depth=6, **FRAMES)),
}
ENCODERS = ("conformer", "branchformer", "speech_transformer")
LONGER = "_equal_compute"
VARIANTS = (
    *(f"{name}_digits" for name in ARMS),
    *(f"{name}_prompts" for name in ENCODERS),
    *(f"{name}{LONGER}" for name in EQUAL_COMPUTE),
)


def get_config(variant: str = "conformer_digits") -> Experiment:
    base = variant.removesuffix(LONGER)
    name, _, data = base.rpartition("_")
    arm = ARMS[name]
    steps = STEPS[data] if base == variant else EQUAL_COMPUTE[base]
    parts = digits() if data == "digits" else prompts()
    return Experiment(
        model=arm.model,
        objective=arm.objective,
        data=parts.pop("train"),
        evals={part: ErrorRates(data=test, search=arm.search, every_steps=steps) for part, test in parts.items()},
        optimizer=AdamW(peak_lr=2e-3, b2=0.98, schedule=Cosine(warmup_steps=50)),
        checkpoint=Checkpoints(every_steps=steps, keep=1),
        trackers=(),
        num_steps=steps,
        batch_size=16,
        log_every_steps=50,
    )


def digits() -> dict[str, Utterances]:
    """Chains of two to four digits by five speakers; other recordings of theirs, and those of a sixth."""
    known = AllBut("speaker", (SPEAKER,))
    sizes: dict[str, Any] = dict(rate=8000, stored_rate=8000, tokenizer=TOKENIZER, samples=28_000, length=29)
    return {
        "train": Utterances("fsdd", "train", **sizes, select=known, chained=Chained(), speed=Speed()),
        "known": Utterances(split="test", select=known, chained=Chained()),
        "unseen": Utterances(split="test", select=Only("speaker", (SPEAKER,)), chained=Chained()),
    }


def prompts() -> dict[str, Utterances]:
    """Prompts of a telephone exchange by one speaker, and others of hers."""
    sizes: dict[str, Any] = dict(rate=8000, stored_rate=8000, tokenizer=TOKENIZER, samples=54_000, length=113)
    buckets: dict[str, Any] = dict(buckets=(12_000, 20_000, 32_000), sort_batches=6)
    return {
        "train": Utterances("phone_prompts_en", "train", **sizes, text="{words}", speed=Speed(), **buckets),
        "test": Utterances(split="test"),
    }


def sweep() -> list[dict]:
    """All arms, and the Conformer with other augmentations than speeds alone; three seeds each."""
    return axes.chain(
        points(variant=VARIANTS),
        augmented("digits", augment=None, speed=None),
        augmented("digits", augment=MASKS, speed=None),
        augmented("digits", augment=MASKS, speed=Speed()),
    )


def augmented(data: str, augment: SpecAugment | None, speed: Speed | None) -> list[dict]:
    return axes.grid(points(variant=(f"conformer_{data}",)), {"objective.augment": [augment]}, {"data.speed": [speed]})


def points(variant: Sequence[str]) -> list[dict]:
    return axes.grid({"variant": variant}, {"seed": range(3)})
