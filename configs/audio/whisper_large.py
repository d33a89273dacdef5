"""Whisper large-v3 and turbo on the 960 hours of LibriSpeech, by the published recipe.

    txjax train --config=configs/audio/whisper_large.py --workdir=runs/whisper
    txjax train --config=configs/audio/whisper_large.py:turbo --workdir=runs/whisper_turbo

The published models were trained on 680,000 (large-v2) to 5,000,000 hours (large-v3), which aren't public. This is
their architecture with windows of 30 seconds, their batch and optimizer, and at most 51,865 pieces of the
transcripts, each behind the prompt of its language and task. The encoder reads the silence behind an utterance, as
theirs does.

Cost: 2.2e21 FLOPs for large-v3, 1.9e21 for turbo with 48 pieces an utterance; 63 and 55 days of one H100 at 40% of its
989.5 TFLOP/s.
Score: not run here. Radford et al. (2023, table 2) give word error rates of 2.7% on test-clean and 5.2% on test-other
for large-v2, which was not trained on LibriSpeech.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, TextNormalization, Trained, Utterances
from txjax.decoding import Beam
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.models.audio.speech_transformer.card import whisper
from txjax.nn import Stack
from txjax.objectives import NextToken
from txjax.optim import AdamW, Linear
from txjax.sharding import Mesh

VARIANTS = ("large-v3", "turbo")
PLANS = (("whisper-large-v3", "large-v3", "v5e:8x8", ("mesh.data=8", "mesh.fsdp=8", "microbatches=2")),)
TRAIN = "train_clean100+train_clean360+train_other500"
WINDOW = 480_000
PROMPT = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")


def get_config(size: str = "large-v3") -> Experiment:
    tokenizer = Trained(
        algorithm=BPE(), size=51_865, name="librispeech", split="train_clean100", specials=("<|endoftext|>", *PROMPT)
    )
    lowercase = TextNormalization(case="lower")
    speech: dict[str, Any] = dict(
        name="librispeech",
        audio_feature="speech",
        tokenizer=tokenizer,
        normalization=lowercase,
        samples=WINDOW,
        length=256,
        prompt=PROMPT,
    )
    return Experiment(
        model=whisper(size, dtype="bfloat16", stack=Stack(remat="dots")),
        objective=NextToken(),
        data=Utterances(split=TRAIN, **speech, too_long="drop"),
        evals={
            name: ErrorRates(data=Utterances(split=split, too_long="drop"), search=Beam(5), every_steps=5000)
            for name, split in (("clean", "dev_clean"), ("other", "dev_other"))
        },
        optimizer=AdamW(
            peak_lr=2e-4,
            b2=0.98,
            eps=1e-6,
            weight_decay=0.1,
            clip=1.0,
            schedule=Linear(warmup_steps=2048),
        ),
        mesh=Mesh(data=1, fsdp=-1),
        checkpoint=Checkpoints(every_steps=5000, keep=3, best="eval/other/wer"),
        num_steps=1_048_576,
        batch_size=256,
        log_every_steps=100,
    )
