"""Conformer-CTC small, medium and large on the 960 hours of LibriSpeech, by NeMo's recipe.

    txjax train --config=configs/audio/conformer_librispeech.py --workdir=runs/conformer_large
    txjax train --config=configs/audio/conformer_librispeech.py:small --workdir=runs/conformer_small

Utterances of up to 16.7 seconds, 128 Unigram pieces. The peak of Noam's schedule is 5 / sqrt(width * 10,000), 2 /
sqrt(width * 10,000) for large, as in NeMo's conformer_ctc_bpe.yaml; statistics of batch normalization are those of 16
examples. A thousand epochs are 137,000 updates of 2,048 utterances.

Cost: 1.1e19 FLOPs for small, 9.0e19 for large at 12.3 seconds an utterance, the mean; large takes 64 hours of one H100
at 40% of its 989.5 TFLOP/s.
Score: not run here. The paper gives word error rates of 2.1% on test-clean and 4.3% on test-other for its large model
with a transducer and no language model (Gulati et al. 2020, table 2).
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import TextNormalization, Trained, Unigram, Utterances
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.conformer import ConformerBlock, ConvModule
from txjax.models.audio.conformer.card import conformer_ctc
from txjax.nn import BatchNorm, Stack
from txjax.nn.audio.spec_augment_policies import conformer_policy
from txjax.objectives import CTC
from txjax.optim import AdamW, InverseSquareRoot
from txjax.sharding import Mesh

VARIANTS = ("small", "medium", "large")
PLANS = (("conformer-large", "large", "v5e:4x8", ()),)
TRAIN = "train_clean100+train_clean360+train_other500"
UTTERANCES = 281_241
BATCH = 2048
WARMUP = 10_000


def get_config(size: str = "large") -> Experiment:
    specials = ("[UNK]",)
    tokenizer = Trained(algorithm=Unigram(), size=128, name="librispeech", split="train_clean100", specials=specials)
    lowercase = TextNormalization(case="lower")
    speech: dict[str, Any] = dict(
        name="librispeech", audio_feature="speech", tokenizer=tokenizer, normalization=lowercase
    )
    model = conformer_ctc(
        size,
        block=ConformerBlock(conv=ConvModule(norm=BatchNorm(group=16))),
        dtype="bfloat16",
        stack=Stack(remat="dots"),
    )
    return Experiment(
        model=model,
        objective=CTC(mean="sum", augment=conformer_policy()),
        data=Utterances(
            split=TRAIN,
            **speech,
            samples=267_200,
            length=320,
            too_long="drop",
            buckets=(133_600, 200_400, 233_800),
            sort_batches=16,
        ),
        evals={
            name: ErrorRates(data=Utterances(split=split, samples=560_000, length=512), every_steps=2000)
            for name, split in (("clean", "dev_clean"), ("other", "dev_other"))
        },
        optimizer=AdamW(
            peak_lr=(2.0 if size == "large" else 5.0) * (model.width * WARMUP) ** -0.5,
            b2=0.98,
            weight_decay=1e-3,
            clip=None,
            schedule=InverseSquareRoot(warmup_steps=WARMUP),
        ),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=2000, keep=5, best="eval/other/wer"),
        num_steps=1000 * UTTERANCES // BATCH,
        batch_size=BATCH,
        log_every_steps=100,
    )
