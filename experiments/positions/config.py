"""Six position encodings of a decoder, trained on windows of 128 bytes and evaluated on longer ones.

txjax sweep --config=experiments/positions/config.py --workdir=runs/positions --jobs=2
txjax report runs/positions --sort=eval/512/loss
"""

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import GPT2, Alibi, Learned, NoPositions, Rotary, Sinusoidal, T5Relative
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine
from txjax.sweep import grid

STEPS, LENGTH = 400, 128


def get_config() -> Experiment:
    def held_out(length: int) -> Evaluation:
        """The same 131,072 bytes at every length."""
        windows = NextTokenWindows(split="validation", length=length)
        return Evaluation(data=windows, every_steps=STEPS, batch_size=1024 // length * 2, max_batches=64)

    return Experiment(
        model=Decoder(vocab=256, width=48, depth=3, heads=3, positions=Rotary(), initial=GPT2()),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_python_text", split="train", length=LENGTH),
        evals={str(length): held_out(length) for length in (128, 256, 512, 1024)},
        optimizer=AdamW(peak_lr=4e-3, weight_decay=0.1, schedule=Cosine(warmup_steps=30)),
        checkpoint=Checkpoints(every_steps=STEPS, keep=1),
        trackers=(),
        num_steps=STEPS,
        batch_size=8,
        log_every_steps=50,
    )


def sweep() -> list[dict]:
    # Embeddings are initialized at 0.02: an amplitude of 1 would dominate them.
    encodings = [NoPositions(), Learned(max_length=1024), Sinusoidal(amplitude=0.02), Rotary(), Alibi(), T5Relative()]
    return grid({"model.positions": encodings, "seed": range(3)})
