"""Speech2Text small, medium and large on the 960 hours of LibriSpeech, by fairseq's recipe.

    txjax train --config=configs/audio/speech2text_librispeech.py --workdir=runs/speech2text
    txjax train --config=configs/audio/speech2text_librispeech.py:large --workdir=runs/speech2text_large

10,000 Unigram pieces, utterances of up to 30 seconds. An update has 256 utterances of 12.3 seconds, the mean: about the
320,000 frames of fairseq's examples/speech_to_text (40,000 frames a device, eight of them). Masks are those of
LibriSpeech double. `speech_transformer("12-6")` of txjax/models/audio/speech_transformer/card.py is the model of Dong
et al. (2018), with the same data and objective.

Cost: 3.2e18 FLOPs for small, 7.5e18 for medium, 2.7e19 for large at 12.3 seconds and 48 pieces an utterance; large
takes 19 hours of one H100 at 40% of its 989.5 TFLOP/s.
Score: not run here. The published small model has word error rates of 4.3% on test-clean and 9.0% on test-other.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import TextNormalization, Trained, Unigram, Utterances
from txjax.decoding import Beam
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.speech_transformer.card import speech2text
from txjax.nn import Stack
from txjax.nn.audio.spec_augment_policies import librispeech_double
from txjax.objectives import NextToken
from txjax.objectives.losses import CrossEntropy
from txjax.optim import AdamW, InverseSquareRoot
from txjax.sharding import Mesh

VARIANTS = ("small", "medium", "large")
PLANS = (("speech2text-large", "large", "v5e:4x8", ()),)
TRAIN = "train_clean100+train_clean360+train_other500"
SPECIALS = ("</s>", "<pad>", "[UNK]")


def get_config(size: str = "small") -> Experiment:
    tokenizer = Trained(algorithm=Unigram(), size=10_000, name="librispeech", split="train_clean100", specials=SPECIALS)
    lowercase = TextNormalization(case="lower")
    speech: dict[str, Any] = dict(
        name="librispeech", audio_feature="speech", tokenizer=tokenizer, normalization=lowercase
    )
    return Experiment(
        model=speech2text(size, dtype="bfloat16", stack=Stack(remat="dots")),
        objective=NextToken(loss=CrossEntropy(label_smoothing=0.1), augment=librispeech_double()),
        data=Utterances(
            split=TRAIN,
            **speech,
            samples=480_000,
            length=192,
            too_long="drop",
            buckets=(160_000, 240_000),
            sort_batches=16,
        ),
        evals={
            name: ErrorRates(
                data=Utterances(split=split, samples=560_000, length=256), search=Beam(5), every_steps=5000
            )
            for name, split in (("clean", "dev_clean"), ("other", "dev_other"))
        },
        optimizer=AdamW(
            peak_lr=2e-3 if size == "small" else 1e-3,
            b2=0.98,
            weight_decay=0.0,
            clip=10.0,
            schedule=InverseSquareRoot(warmup_steps=10_000),
        ),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=5000, keep=10, best="eval/other/wer"),
        num_steps=300_000,
        batch_size=256,
        log_every_steps=100,
    )
