"""Six position encodings of an encoder-decoder, trained on pairs of at most 16 tokens and evaluated on longer ones.

txjax sweep --config=experiments/positions/config_translation.py --workdir=runs/positions_translation --jobs=2
txjax report runs/positions_translation --sort=eval/32/loss
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, Pairs, Trained
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import Alibi, Learned, NoPositions, Rotary, Sinusoidal, T5Relative
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine
from txjax.sweep import grid

STEPS, LONGEST = 1000, 16


def get_config() -> Experiment:
    name, languages = "multi30k/en_de", ("en", "de")
    tokenizer = Trained(
        algorithm=BPE(), size=4000, name=name, features=languages, specials=("[PAD]", "[START]", "[END]")
    )
    texts = dict(source_text="{en}", target_text="{de}", tokenizer=tokenizer, too_long="drop")

    def held_out(split: str, longer_than: int, longest: int) -> Evaluation:
        """At most 1,024 pairs of such lengths. Those of the training split are too long for training."""
        data = Pairs(split=split, longer_than=longer_than, source_length=longest, length=longest, **texts)
        return Evaluation(data=data, every_steps=STEPS, batch_size=64, max_batches=16)

    return Experiment(
        model=EncoderDecoder(vocab=4000, width=96, depth=2, heads=4, positions=Rotary(), dropout=0.1),
        objective=NextToken(),
        data=Pairs(name=name, split="train", source_length=LONGEST, length=LONGEST, **texts),
        evals={
            "16": held_out("validation", 0, LONGEST),
            "24": held_out("train", LONGEST, 24),
            "32": held_out("train", 24, 32),
            "48": held_out("train", 32, 48),
        },
        optimizer=AdamW(peak_lr=2e-3, weight_decay=0.05, schedule=Cosine(warmup_steps=100)),
        checkpoint=Checkpoints(every_steps=STEPS, keep=1),
        trackers=(),
        num_steps=STEPS,
        batch_size=64,
        log_every_steps=50,
    )


def sweep() -> list[dict]:
    # Embeddings are initialized at 0.02: an amplitude of 1 would dominate them.
    encodings = [NoPositions(), Learned(max_length=48), Sinusoidal(amplitude=0.02), Rotary(), Alibi(), T5Relative()]
    return grid({"model.positions": encodings, "seed": range(3)})
