"""Prompts of a telephone exchange, from waveforms to letters: a Conformer with CTC.

    txjax train --config=configs/audio/phone_prompts.py --workdir=runs/phone_prompts

The data is TFDS's `phone_prompts_en`: 388 prompts of one speaker at 8 kHz, of 0.2 to 6 seconds, and 69 others to test;
no text is in two splits. `--config.data.data_dir` or TFDS_DATA_DIR gives its folder. The transcript of the training
prompt that sounds most alike (its nearest neighbour) has a character error rate of 0.765, that
whose text is most alike 0.474.

Cost: 8.5 minutes on two CPU cores that had other work, too.
Score: eval/test/cer 0.39 or less (0.370 here).
"""

from txjax.data import Speed, Utterances
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.conformer import Conformer, ConformerBlock, ConvModule
from txjax.nn import BatchNorm, TokenClasses
from txjax.nn.audio.front_ends import telephone
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.objectives import CTC
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    return Experiment(
        model=Conformer(
            width=64,
            depth=3,
            heads=4,
            dropout=0.1,
            front_end=telephone(mels=40),
            subsampling=ImageSubsampling(channels=16),
            block=ConformerBlock(conv=ConvModule(kernel=7, norm=BatchNorm(group=16))),
            head=TokenClasses(29),
        ),
        objective=CTC(),
        data=Utterances(
            name="phone_prompts_en",
            split="train",
            text="{words}",
            rate=8000,
            stored_rate=8000,
            samples=54_000,
            length=112,
            speed=Speed(),
            buckets=(12_000, 20_000, 32_000),
            sort_batches=6,
        ),
        evals={"test": ErrorRates(data=Utterances(split="test"), every_steps=1000)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.98, schedule=Cosine(warmup_steps=50)),
        num_steps=3000,
        batch_size=16,
        log_every_steps=100,
    )
