"""GPT-2 from scratch on C4, four sizes, by the recipe of nanoGPT's reproduction.

That is config/train_gpt2.py of github.com/karpathy/nanoGPT: half a million tokens an update, 300 billion in all, no
dropout, no biases.

    txjax train --config=configs/text/gpt2.py --workdir=runs/gpt2
    txjax train --config=configs/text/gpt2.py:355M --workdir=runs/gpt2_355m --config.microbatches=8

The first is for eight GPUs; one H100 needs `--config.microbatches=4` (30.3 of the 59.3 GiB that JAX takes of it, by
`txjax plan --topology=h100:1`). Its logits are kept in bfloat16, as nanoGPT's are under autocast.

The peak rates above 124M are GPT-3's for these sizes (Brown et al. 2020, table 2.1). OpenWebText is not in TFDS: TFDS's
`c4/en` replaces it, and a byte-level BPE of GPT-2's size is trained on its first million documents.

Cost: 2.4e20 FLOPs (`flops_per_step` of manifest.json, times num_steps), 165 hours of one H100 at 40% of its 989.5
TFLOP/s. 355M 6.7e20, 774M 1.5e21, 1.5B 2.9e21 FLOPs.
Score: not run here. nanoGPT's README gives 2.85 nats a token of OpenWebText for 124M by this recipe.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, NextTokenWindows, Trained
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.card import gpt2
from txjax.nn import MLP, Attention, LayerNorm, Stack
from txjax.objectives import CrossEntropy, NextToken
from txjax.optim import AdamW, Cosine
from txjax.sharding import Mesh

RATES = {"124M": 6e-4, "355M": 3e-4, "774M": 2.5e-4, "1.5B": 2e-4}
VARIANTS = tuple(RATES)
PLANS = (
    ("gpt2-124m", "124M", "h100:8", ()),
    ("gpt2-1.5b", "1.5B", "v5e:16x16", ("batch_size=512", "mesh.data=32", "mesh.fsdp=8")),
    ("gpt2-1.5b", "1.5B", "v5p:4x4x4", ("batch_size=512", "mesh.data=8", "mesh.fsdp=8")),
    (
        "gpt2-1.5b-linear",
        "1.5B",
        "v5e:16x16",
        ("batch_size=512", "mesh.data=32", "mesh.fsdp=8", "model.mixer=LinearAttention(use_bias=False)"),
    ),
    (
        "gpt2-1.5b-favor",
        "1.5B",
        "v5e:16x16",
        (
            "batch_size=512",
            "mesh.data=32",
            "mesh.fsdp=8",
            "model.mixer=LinearAttention(use_bias=False, features=FavorPlus(features=128))",
        ),
    ),
    ("gpt2-1.5b", "1.5B", "h100:8", ("batch_size=512", "mesh.data=1", "mesh.fsdp=8", "microbatches=8")),
)


def get_config(size: str = "124M") -> Experiment:
    tokenizer = Trained(algorithm=BPE(), size=50257, name="c4/en", split="train[:1000000]", specials=("<|endoftext|>",))
    text = dict(length=1024, tokenizer=tokenizer, boundaries=False)
    small = size == "124M"
    return Experiment(
        model=gpt2(
            size,
            vocab=50304,  # a multiple of 128
            mixer=Attention(use_bias=False),
            mlp=MLP(activation="gelu_tanh", use_bias=False),
            norm=LayerNorm(eps=1e-5, use_bias=False),
            stack=Stack(remat="minimal" if small else "dots"),
            dtype="bfloat16",
        ),
        objective=NextToken(loss=CrossEntropy(chunk=512, dtype="bfloat16")),
        data=NextTokenWindows(name="c4/en", split="train", **text),
        evals={
            "valid": Evaluation(data=NextTokenWindows(split="validation", **text), every_steps=1000, max_batches=20)
        },
        optimizer=AdamW(
            peak_lr=RATES.get(size, 6e-4), b2=0.95, weight_decay=0.1, schedule=Cosine(warmup_steps=2000, final=0.1)
        ),
        mesh=Mesh(data=-1) if small else Mesh(data=1, fsdp=-1),
        checkpoint=Checkpoints(every_steps=5000),
        num_steps=600_000,
        batch_size=480,
        log_every_steps=50,
    )
