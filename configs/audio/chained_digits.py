"""Spoken digits in chains of two to four, from waveforms to letters: a Conformer with CTC.

    txjax train --config=configs/audio/chained_digits.py --workdir=runs/chained_digits
    txjax train --config=configs/audio/chained_digits.py:unseen --workdir=runs/unseen_speaker

`unseen` trains on five of the six speakers and is tested on the sixth, too. The data is TFDS's `fsdd` (the Free Spoken
Digit Dataset: 1,200 recordings at 8 kHz to train on, 300 to test); `--config.data.data_dir` or TFDS_DATA_DIR gives
its folder. The best constant word has a character error rate of 0.75.

Cost: 3 minutes on two CPU cores.
Score: eval/test/cer 0.02 or less of other recordings of the same speakers (0.012 here, and a word error rate of 0.029).
"""

from txjax.data import AllBut, Chained, Only, Utterances
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.conformer import Conformer, ConformerBlock, ConvModule
from txjax.nn import TokenClasses
from txjax.nn.audio.emphasis import FrameEmphasis
from txjax.nn.audio.framing import WholeWindows
from txjax.nn.audio.log_energies import FlooredLog
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.mel_filters import KaldiFilters
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.objectives import CTC
from txjax.optim import AdamW, Cosine

VARIANTS = ("conformer", "unseen")
SPEAKER = "yweweler"


def get_config(variant: str = "conformer") -> Experiment:
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
    chains = dict(name="fsdd", rate=8000, stored_rate=8000, samples=28_000, length=28, chained=Chained())
    known = AllBut("speaker", (SPEAKER,)) if variant == "unseen" else None
    speakers = {"test": known} | ({"unseen": Only("speaker", (SPEAKER,))} if variant == "unseen" else {})
    return Experiment(
        model=Conformer(
            width=64,
            depth=3,
            heads=4,
            front_end=front_end,
            subsampling=ImageSubsampling(channels=16),
            block=ConformerBlock(conv=ConvModule(kernel=7)),
            head=TokenClasses(29),
        ),
        objective=CTC(),
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
