"""A recurrent encoder-decoder with attention and a Transformer, at equal parameters and at equal compute.

txjax sweep --config=experiments/translation/config.py --workdir=runs/rnn_or_transformer --jobs=2
python experiments/translation/by_length.py runs/rnn_or_transformer
python experiments/translation/alignments.py runs/rnn_or_transformer
"""

from txjax import sweep as axes
from txjax.checkpoint import Checkpoints
from txjax.data import BPE, Pairs, Trained
from txjax.eval import Evaluation, GeneratedTexts
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder import transformer
from txjax.models.text.recurrent import RecurrentEncoderDecoder
from txjax.nn import PreNorm
from txjax.objectives import NextToken
from txjax.objectives.losses import CrossEntropy
from txjax.optim import AdamW, Cosine

STEPS, VOCAB = 800, 4000
TRANSFORMER = transformer(vocab=VOCAB, width=192, depth=2, heads=4, dropout=0.1, block=PreNorm())
RECURRENT = RecurrentEncoderDecoder(vocab=VOCAB, width=256, encoder_width=128, use_bias=True, dropout=0.2)
# Updates of the recurrent model that cost as many FLOPs as the Transformer's; `by_length.py` prints both numbers.
EQUAL_COMPUTE = 1320


def get_config() -> Experiment:
    name, specials = "multi30k/en_de", ("[PAD]", "[START]", "[END]")
    tokenizer = Trained(algorithm=BPE(), size=VOCAB, name=name, features=("en", "de"), specials=specials)
    texts = dict(source_text="{en}", target_text="{de}", source_length=48, length=48, tokenizer=tokenizer)
    return Experiment(
        model=TRANSFORMER,
        objective=NextToken(loss=CrossEntropy(label_smoothing=0.1)),
        data=Pairs(name, "train", **texts, buckets=((16, 16), (24, 24), (32, 32)), sort_batches=16),
        evals={
            "valid": Evaluation(Pairs(split="validation", **texts), every_steps=STEPS // 8),
            "test": GeneratedTexts(Pairs(split="test", **texts), every_steps=10 * STEPS),
        },
        optimizer=AdamW(peak_lr=4e-3, b2=0.98, weight_decay=0.0, schedule=Cosine(warmup_steps=200)),
        checkpoint=Checkpoints(every_steps=STEPS, keep=1),
        trackers=(),
        num_steps=STEPS,
        batch_size=64,
        log_every_steps=50,
    )


def sweep() -> list[dict]:
    # The best rates of 1, 2, 4, 8e-3 and of 1.5, 3, 6, 12, 24e-3 after 600 updates.
    arms = {
        "model": [TRANSFORMER, RECURRENT, RECURRENT],
        "num_steps": [STEPS, STEPS, EQUAL_COMPUTE],
        "optimizer.peak_lr": [4e-3, 1.2e-2, 1.2e-2],
    }
    return axes.grid(axes.zip(arms), {"seed": range(3)})
