"""LLaVA 1.5 in the two stages of the paper (Liu et al. 2023b, table 9): `:projector-7B`, `:answers-7B`, and 13B.

    txjax import --from=clip-vit-large-patch14-336 --workdir=runs/clip
    txjax import --from=vicuna-7b-v1.5 --workdir=runs/vicuna
    txjax train --config=configs/multimodal/llava.py:projector-7B --workdir=runs/llava_projector \\
        --config.data.source.paths='LLaVA-Pretrain/*.json' \\
        --config.init_from[0].run=runs/clip --config.init_from[1].run=runs/vicuna
    txjax train --config=configs/multimodal/llava.py:answers-7B --workdir=runs/llava \\
        --config.data.source.paths='LLaVA-Instruct/*.json' --config.init_from=runs/llava_projector

The tower is frozen in both stages. The first trains the projector alone, on 558 thousand images with captions; the
second the language model, too, on 665 thousand conversations, of which some have no image. Both folders have the
authors' JSON beside their images, and both runs need the tokenizer of the language model (docs/data.md):
`--config.data.tokenizer='TokenizerFolder("vicuna-7b-v1.5")'`. Here it is one of the same size.

Cost: 4.4e19 and 7.1e19 FLOPs for the stages of 7B, 8.5e19 and 1.4e20 of 13B, or 31, 50, 60 and 96 hours of an H100 at
40% of its 989.5 TFLOP/s, without what rematerialisation computes again.
Score: not run here. The paper gives 78.5% on VQAv2 for 7B and 80.0% for 13B.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, ConversationFiles, Conversations, PadSquare, PlainTemplate, Stretch, Trained, VicunaTemplate
from txjax.experiment import Experiment
from txjax.models.multimodal.llava.card import llava15
from txjax.nn import Stack
from txjax.objectives import CrossEntropy, NextToken
from txjax.optim import AdamW, Cosine, train_all_but, train_only
from txjax.sharding import Mesh
from txjax.transfer import From

VARIANTS = ("projector-7B", "projector-13B", "answers-7B", "answers-13B")
EXAMPLES = {"projector": 558_128, "answers": 665_298}
BATCHES = {"projector": 256, "answers": 128}
RATES = {"projector": 1e-3, "answers": 2e-5}
TEMPLATES = {"projector": PlainTemplate(), "answers": VicunaTemplate()}
TRAINED = {"projector": train_only("projector/.*"), "answers": train_all_but("vision/.*")}
ORIGINS = {"projector": (From(there="vision", here="vision"), From()), "answers": From()}
PLANS = (
    ("llava-1.5-7b-projector", "projector-7B", "v5e:8x8", ("mesh.data=4", "mesh.fsdp=16", "microbatches=2")),
    ("llava-1.5-7b-answers", "answers-7B", "v5e:8x8", ("mesh.data=2", "mesh.fsdp=32", "microbatches=2")),
    ("llava-1.5-13b-projector", "projector-13B", "v5p:4x4x4", ("mesh.data=8", "mesh.fsdp=8")),
    ("llava-1.5-13b-answers", "answers-13B", "v5p:4x4x4", ("mesh.data=2", "mesh.fsdp=32")),
    ("llava-1.5-7b-answers", "answers-7B", "h100:8", ("mesh.data=1", "mesh.fsdp=8", "microbatches=4")),
)


def get_config(variant: str = "projector-7B") -> Experiment:
    stage, _, size = variant.partition("-")
    steps = EXAMPLES[stage] // BATCHES[stage]
    tokenizer = Trained(
        algorithm=BPE(), size=32_000, name="c4/en", split="train[:1000000]", specials=("<image>", "<s>", "</s>")
    )
    return Experiment(
        model=llava15(size, tower={"dtype": "bfloat16"}, dtype="bfloat16", stack=Stack(remat="full")),
        objective=NextToken(loss=CrossEntropy(chunk=256)),
        data=Conversations(
            source=ConversationFiles("llava/*.json", held_out=0.0),
            split="train",
            template=TEMPLATES[stage],
            tokenizer=tokenizer,
            transforms=(PadSquare(), Stretch(336)),
            too_long="cut",
            unusable="skip",
            buckets=(1024,),
            sort_batches=50,
        ),
        optimizer=AdamW(
            peak_lr=RATES[stage],
            b2=0.999,
            weight_decay=0.0,
            schedule=Cosine(warmup_steps=round(0.03 * steps), final=0.0),
            groups=TRAINED[stage],
        ),
        mesh=Mesh(data=1, fsdp=-1),
        checkpoint=Checkpoints(every_steps=500, frozen="origin"),
        num_steps=steps,
        batch_size=BATCHES[stage],
        log_every_steps=10,
        init_from=ORIGINS[stage],
    )
