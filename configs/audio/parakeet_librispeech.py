"""Parakeet-CTC 0.6b and 1.1b (Fast Conformer XL and XXL) on the 960 hours of LibriSpeech.

    txjax train --config=configs/audio/parakeet_librispeech.py --workdir=runs/parakeet
    txjax train --config=configs/audio/parakeet_librispeech.py:1.1b --workdir=runs/parakeet_xxl

The published models were trained on 64,000 hours, most of which aren't public; this is their architecture with 1,024
Unigram pieces and a token every 80 ms, and the schedule of Conformer-CTC large. Utterances of up to 20 seconds.

Cost: 1.1e20 FLOPs for 0.6b, 2.0e20 for 1.1b at 12.3 seconds an utterance, the mean; 82 and 142 hours of one H100 at
40% of its 989.5 TFLOP/s.
Score: not run here. NVIDIA's model cards give word error rates of 1.87% on test-clean and 3.76% on test-other for 0.6b,
1.83% and 3.54% for 1.1b, trained on 64,000 hours.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import TextNormalization, Trained, Unigram, Utterances
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.conformer import ConformerBlock, ConvModule
from txjax.models.audio.conformer.card import parakeet_ctc
from txjax.nn import BatchNorm, Stack
from txjax.nn.audio.spec_augment_policies import conformer_policy
from txjax.objectives import CTC
from txjax.optim import AdamW, InverseSquareRoot
from txjax.sharding import Mesh

VARIANTS = ("0.6b", "1.1b")
PLANS = (("parakeet-1.1b", "1.1b", "v5e:8x8", ("mesh.data=8", "mesh.fsdp=8")),)
TRAIN = "train_clean100+train_clean360+train_other500"
WARMUP = 10_000


def get_config(size: str = "0.6b") -> Experiment:
    specials = ("[UNK]",)
    tokenizer = Trained(algorithm=Unigram(), size=1024, name="librispeech", split="train_clean100", specials=specials)
    lowercase = TextNormalization(case="lower")
    speech: dict[str, Any] = dict(
        name="librispeech", audio_feature="speech", tokenizer=tokenizer, normalization=lowercase
    )
    model = parakeet_ctc(
        size,
        block=ConformerBlock(conv=ConvModule(kernel=9, norm=BatchNorm(group=16))),
        dtype="bfloat16",
        stack=Stack(remat="dots"),
    )
    return Experiment(
        model=model,
        objective=CTC(mean="sum", augment=conformer_policy()),
        data=Utterances(
            split=TRAIN,
            **speech,
            samples=320_000,
            length=256,
            too_long="drop",
            buckets=(160_000, 240_000),
            sort_batches=16,
        ),
        evals={
            name: ErrorRates(data=Utterances(split=split, samples=560_000, length=512), every_steps=2000)
            for name, split in (("clean", "dev_clean"), ("other", "dev_other"))
        },
        optimizer=AdamW(
            peak_lr=2.0 * (model.width * WARMUP) ** -0.5,
            b2=0.98,
            weight_decay=1e-3,
            clip=1.0,
            schedule=InverseSquareRoot(warmup_steps=WARMUP),
        ),
        mesh=Mesh(data=1, fsdp=-1),
        checkpoint=Checkpoints(every_steps=2000, keep=5, best="eval/other/wer"),
        num_steps=100_000,
        batch_size=2048,
        log_every_steps=100,
    )
