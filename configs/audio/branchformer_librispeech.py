"""Branchformer with CTC on the 960 hours of LibriSpeech: the encoder of Peng et al. 2022, 18 layers of 512.

    txjax train --config=configs/audio/branchformer_librispeech.py --workdir=runs/branchformer

ESPnet's recipe for the encoder: a peak of 2.5e-3 after 40,000 updates, about 70 epochs, SpecAugment; here with the loss
of CTC alone, where ESPnet adds an attention decoder to it, on batches of 256 utterances of up to 16.7 seconds. The two
branches are merged by a learned average, and metrics.jsonl has its weights: `mixer_weight/layer_0` and so on.

Cost: 76,901 updates, 5.2e18 FLOPs at 12.3 seconds an utterance, the mean; 3.7 hours of one H100 at 40% of its 989.5
TFLOP/s.
Score: not run here. Word error rates of 2.3% on test-clean and 5.3% on test-other are ESPnet's, for the hybrid of CTC
and attention without a language model.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import TextNormalization, Trained, Unigram, Utterances
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.branchformer import BranchformerBlock, LearnedAverage
from txjax.models.audio.branchformer.card import branchformer_ctc
from txjax.nn import Stack, TokenClasses
from txjax.nn.audio.spec_augment_policies import conformer_policy
from txjax.objectives import CTC
from txjax.optim import AdamW, InverseSquareRoot
from txjax.sharding import Mesh

PLANS = (("branchformer-18x512", "", "v5e:4x4", ()),)
UTTERANCES = 281_241
BATCH = 256


def get_config() -> Experiment:
    tokenizer = Trained(algorithm=Unigram(), size=4999, name="librispeech", split="train_clean100", specials=("[UNK]",))
    speech: dict[str, Any] = dict(
        name="librispeech", audio_feature="speech", tokenizer=tokenizer, normalization=TextNormalization(case="lower")
    )
    return Experiment(
        model=branchformer_ctc(
            "librispeech",
            head=TokenClasses(5000),
            block=BranchformerBlock(merge=LearnedAverage(branch_dropout=0.1)),
            dtype="bfloat16",
            stack=Stack(remat="dots"),
        ),
        objective=CTC(mean="sum", augment=conformer_policy()),
        data=Utterances(
            split="train_clean100+train_clean360+train_other500",
            **speech,
            samples=267_200,
            length=256,
            too_long="drop",
            buckets=(133_600, 200_400, 233_800),
            sort_batches=16,
        ),
        evals={
            name: ErrorRates(data=Utterances(split=split, samples=560_000, length=512), every_steps=2000)
            for name, split in (("clean", "dev_clean"), ("other", "dev_other"))
        },
        optimizer=AdamW(peak_lr=2.5e-3, b2=0.98, weight_decay=1e-6, schedule=InverseSquareRoot(warmup_steps=40_000)),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=2000, keep=5, best="eval/other/wer"),
        num_steps=70 * UTTERANCES // BATCH,
        batch_size=BATCH,
        log_every_steps=100,
    )
