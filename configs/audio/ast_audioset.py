"""The Audio Spectrogram Transformer on AudioSet, or `:speech-commands`, as published: Gong et al. 2021, 3.

    txjax train --config=configs/audio/ast_audioset.py --workdir=runs/ast --config.data.name=SET \
        --config.init_from[0].run=runs/vit --config.init_from[1].run=runs/vit

AudioSet is no set of TFDS: SET is one of yours with the recordings and a sequence of class labels `tags` (`Tags` in
docs/data.md). Of Speech Commands V2 it is a folder with its 35 words, `--config.data.source=FOLDER`, since the set
of TFDS has 12 classes. `runs/vit` is a ViT-B/16 of 384 pixels, such as one that `txjax import` has read. Without a run,
training starts from random weights.

The authors start from a DeiT, whose second token a ViT lacks: here it begins as the class token. They sample rare
classes of AudioSet more often, average the weights of all epochs, and mix noise and pairs of words in Speech Commands,
none of which is here; `ema` is an average, too.

Cost: 7.8e18 FLOPs, or 5.5 hours of an H100 at 40% of its 989.5 TFLOP/s; 2.0e17 for Speech Commands, or 8 minutes.
Score: 0.459 mAP of AudioSet's evaluation set, 98.1% of Speech Commands (published, tables 1 and 4; not run here).
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import AudioFolder, LabelledAudio, Tags, WaveformMixup
from txjax.eval import Evaluation, LabelPrecision
from txjax.experiment import Experiment
from txjax.models.audio.spectrogram_transformer.card import ast_audioset, ast_speech_commands
from txjax.nn.audio.front_ends import SPEECH_COMMANDS
from txjax.nn.audio.spec_augment import AxisMasks, Constant, SpecAugment
from txjax.nn.audio.spec_augment_policies import audio_spectrogram_policy
from txjax.objectives import Classification, SigmoidCrossEntropy
from txjax.optim import EMA, AdamW, StepDecay
from txjax.transfer import CutOrStretch, From, SummedChannels

VARIANTS = ("audioset", "speech-commands")
PLANS = (
    ("ast-audioset", "audioset", "v5e:2x2", ("mesh.data=4",)),
    ("ast-audioset", "audioset", "h100:1", ()),
)


def get_config(variant: str = "audioset") -> Experiment:
    return audioset() if variant == "audioset" else speech_commands()


def from_vit(columns: int) -> tuple[From, From]:
    """All but the head from a ViT, for so many patches of time; the second token as a copy of the class token."""
    resize = CutOrStretch(prefix=2, prefix_there=1, columns=columns), SummedChannels()
    new = "head", "norm_head", "pool/distillation"
    return From(omit=new, resize=resize), From(here="pool/distillation", there="pool/token")


def audioset() -> Experiment:
    recordings: dict[str, Any] = dict(classes=527, too_long="cut", label=Tags("tags"))
    mix = WaveformMixup(alpha=10, probability=0.5)
    batch_size, clips, epochs = 12, 2_000_000, 5
    return Experiment(
        model=ast_audioset(dtype="bfloat16"),
        objective=Classification(loss=SigmoidCrossEntropy(), augment=audio_spectrogram_policy()),
        data=LabelledAudio(name="audioset", split="train", samples=160_000, mix=mix, **recordings),
        evals={"test": LabelPrecision(data=LabelledAudio(split="test", **recordings), every_steps=40_000)},
        init_from=from_vit(columns=101),
        optimizer=AdamW(
            peak_lr=1e-5,
            b1=0.95,
            b2=0.999,
            weight_decay=0.0,
            clip=None,
            schedule=StepDecay(warmup_steps=1000, at=(0.4, 0.6, 0.8), factor=0.5),
        ),
        ema=EMA(),
        checkpoint=Checkpoints(every_steps=40_000, best="eval/test/map", best_mode="max"),
        num_steps=epochs * clips // batch_size,
        batch_size=batch_size,
        log_every_steps=100,
    )


def speech_commands() -> Experiment:
    recordings: dict[str, Any] = dict(samples=16_000, classes=35, too_long="cut")
    batch_size, clips, epochs = 128, 84_843, 30
    mean, deviation = SPEECH_COMMANDS
    masks = AxisMasks(count=1, width=48)
    augment = SpecAugment(frequency=masks, time=masks, fill=Constant(-mean / (2 * deviation)))
    return Experiment(
        model=ast_speech_commands(dtype="bfloat16"),
        objective=Classification(loss=SigmoidCrossEntropy(), augment=augment),
        data=LabelledAudio(source=AudioFolder("speech_commands"), **recordings),
        evals={"test": Evaluation(data=LabelledAudio(split="test", classes=35, too_long="cut"), every_steps=1000)},
        init_from=from_vit(columns=12),
        optimizer=AdamW(
            peak_lr=2.5e-4,
            b1=0.95,
            b2=0.999,
            weight_decay=0.0,
            clip=None,
            schedule=StepDecay(at=tuple(epoch / epochs for epoch in range(5, epochs)), factor=0.85),
        ),
        ema=EMA(decay=0.999),
        checkpoint=Checkpoints(every_steps=1000, best="eval/test/accuracy", best_mode="max"),
        num_steps=epochs * clips // batch_size,
        batch_size=batch_size,
        log_every_steps=100,
    )
