"""Spoken digits in chains of two to four, from waveforms to letters: Conformer, Branchformer, Speech-Transformer.

    txjax train --config=configs/audio/chained_digits.py --workdir=runs/conformer
    txjax train --config=configs/audio/chained_digits.py:branchformer --workdir=runs/branchformer
    txjax train --config=configs/audio/chained_digits.py:speech_transformer --workdir=runs/speech_transformer
    txjax train --config=configs/audio/chained_digits.py:unseen --workdir=runs/unseen_speaker

`conformer` and `branchformer` are trained with CTC, `speech_transformer` by CTC and an attention decoder together: by
the decoder alone it does not learn where in the recording it is in so few updates (a rate of 0.82 after 1,000).
`unseen` is a Conformer that trains on five of the six speakers, at three speeds, and is tested on the sixth, too. The
data is TFDS's `fsdd` (the Free Spoken Digit Dataset: 1,200 recordings at 8 kHz to train on, 300 to test);
`--config.data.data_dir` or TFDS_DATA_DIR gives its folder. The best constant word has a character error rate of 0.75.

Cost: 2.4 minutes on two CPU cores that had other work, too.
Score: eval/test/cer 0.02 or less of other recordings of the same speakers (0.008 here, and a word error rate of 0.020;
`branchformer` 0.010 and 0.021, `speech_transformer` 0.013 and 0.020). `unseen` has 0.009, and 0.076 of the speaker that
it never heard.
"""

from typing import Any

from txjax.data import AllBut, Chained, Characters, Only, Speed, Utterances
from txjax.decoding import BestPath, JointBeam
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.branchformer import Branchformer, ConvGatingMLP
from txjax.models.audio.conformer import Conformer, ConformerBlock, ConvModule
from txjax.models.audio.speech_transformer import speech2text
from txjax.nn import BatchNorm, TokenClasses
from txjax.nn.audio.front_ends import telephone
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.objectives import CTC, JointCTC
from txjax.optim import AdamW, Cosine

VARIANTS = ("conformer", "branchformer", "speech_transformer", "unseen")
LETTERS = " '" + "abcdefghijklmnopqrstuvwxyz"
SPEAKER = "yweweler"


def get_config(variant: str = "conformer") -> Experiment:
    is_unseen = variant == "unseen"
    has_decoder = variant == "speech_transformer"
    known = AllBut("speaker", (SPEAKER,)) if is_unseen else None
    speakers = {"test": known} | ({"unseen": Only("speaker", (SPEAKER,))} if is_unseen else {})
    search = JointBeam(size=5) if has_decoder else BestPath()
    return Experiment(
        model=speech_model("conformer" if is_unseen else variant),
        objective=JointCTC() if has_decoder else CTC(),
        data=Utterances(
            name="fsdd",
            split="train",
            rate=8000,
            stored_rate=8000,
            samples=28_000,
            length=28,
            tokenizer=Characters(LETTERS, specials=("</s>",) if has_decoder else ()),
            select=known,
            speed=Speed() if is_unseen else None,
            chained=Chained(),
        ),
        evals={
            name: ErrorRates(
                data=Utterances(split="test", select=select, chained=Chained()), search=search, every_steps=250
            )
            for name, select in speakers.items()
        },
        optimizer=AdamW(peak_lr=2e-3, b2=0.98, schedule=Cosine(warmup_steps=50)),
        num_steps=1000,
        batch_size=16,
        log_every_steps=50,
    )


def speech_model(name: str) -> Any:
    """A model of about 300,000 parameters: 28 letters, the blank and, for a decoder, the end."""
    shared: dict[str, Any] = dict(width=64, heads=4)
    reading: dict[str, Any] = dict(front_end=telephone(), subsampling=ImageSubsampling(channels=16))
    letters = TokenClasses(len(LETTERS) + 1)
    if name == "conformer":
        block = ConformerBlock(conv=ConvModule(kernel=7, norm=BatchNorm(group=16)))
        return Conformer(depth=3, block=block, head=letters, **shared, **reading)
    if name == "branchformer":
        return Branchformer(depth=4, mlp=ConvGatingMLP(hidden=96, kernel=15), head=letters, **shared, **reading)
    tokens = len(LETTERS) + 1
    encoder = {"depth": 3, **reading}
    return speech2text(vocab=tokens, depth=2, encoder=encoder, ctc_head=TokenClasses(tokens + 1), dropout=0.1, **shared)
