"""Spoken digits in chains of two to four, from waveforms to letters: Conformer, Branchformer, Speech-Transformer.

    txjax train --config=configs/audio/chained_digits.py --workdir=runs/conformer
    txjax train --config=configs/audio/chained_digits.py:branchformer --workdir=runs/branchformer
    txjax train --config=configs/audio/chained_digits.py:speech_transformer --workdir=runs/speech_transformer
    txjax train --config=configs/audio/chained_digits.py:unseen --workdir=runs/unseen_speaker

`conformer` and `branchformer` have CTC, `speech_transformer` a decoder. `unseen` is a Conformer that trains on five of
the six speakers, at three speeds and with masks, and is tested on the sixth, too. The data is TFDS's `fsdd` (the Free
Spoken Digit Dataset: 1,200 recordings at 8 kHz to train on, 300 to test); `--config.data.data_dir` or TFDS_DATA_DIR
gives its folder. The best constant word has a character error rate of 0.75.

Cost: 2.2 minutes on two CPU cores.
Score: eval/test/cer 0.02 or less of other recordings of the same speakers (0.012 here, and a word error rate of 0.029).
"""

from typing import Any

from txjax.data import AllBut, Chained, Characters, Only, Speed, Utterances
from txjax.decoding import Beam
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.branchformer import Branchformer, ConvGatingMLP
from txjax.models.audio.conformer import Conformer, ConformerBlock, ConvModule
from txjax.models.audio.speech_transformer import speech2text
from txjax.nn import BatchNorm, TokenClasses
from txjax.nn.audio.emphasis import FrameEmphasis
from txjax.nn.audio.framing import WholeWindows
from txjax.nn.audio.log_energies import FlooredLog
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.mel_filters import KaldiFilters
from txjax.nn.audio.spec_augment import AxisMasks, SpecAugment
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.objectives import CTC, NextToken
from txjax.optim import AdamW, Cosine

VARIANTS = ("conformer", "branchformer", "speech_transformer", "unseen")
LETTERS = " '" + "abcdefghijklmnopqrstuvwxyz"
SPEAKER = "yweweler"


def get_config(variant: str = "conformer") -> Experiment:
    unseen = variant == "unseen"
    front_end = LogMel(
        rate=8000,
        mels=80,
        window=200,
        hop=80,
        fft=256,
        scale=2.0**15,
        framing=WholeWindows(),
        emphasis=FrameEmphasis(),
        filters=KaldiFilters(low=20.0, allowed_empty=1),
        log=FlooredLog(),
    )
    masks = SpecAugment(frequency=AxisMasks(count=2, width=15), time=AxisMasks(count=2, width=10))
    chains = dict(name="fsdd", rate=8000, stored_rate=8000, samples=28_000, length=28, chained=Chained())
    encoder: dict[str, Any] = dict(
        width=64, heads=4, front_end=front_end, subsampling=ImageSubsampling(channels=16), head=TokenClasses(29)
    )
    conformer = Conformer(depth=3, block=ConformerBlock(conv=ConvModule(kernel=7, norm=BatchNorm(group=16))), **encoder)
    models = {
        "conformer": conformer,
        "unseen": conformer,
        "branchformer": Branchformer(depth=4, mlp=ConvGatingMLP(hidden=96, kernel=15), **encoder),
    }
    if variant == "speech_transformer":
        letters = Characters(LETTERS, specials=("</s>",))
    known = AllBut("speaker", (SPEAKER,)) if unseen else None
    speakers = {"test": known} | ({"unseen": Only("speaker", (SPEAKER,))} if unseen else {})
    return Experiment(
        model=models[variant],
        objective=CTC(augment=masks if unseen else None),
        data=Utterances(split="train", select=known, **chains),
        evals={
            name: ErrorRates(data=Utterances(split="test", select=select, chained=Chained()), every_steps=250)
            for name, select in speakers.items()
        },
        optimizer=AdamW(peak_lr=2e-3, b2=0.98, schedule=Cosine(warmup_steps=50)),
        num_steps=1000,
        batch_size=16,
        log_every_steps=50,
    )
