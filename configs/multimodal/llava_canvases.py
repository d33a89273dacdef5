"""A small LLaVA of canvases of digits: how many digits are there?

    txjax train --config=configs/multimodal/llava_canvases.py --workdir=runs/llava
    txjax generate --workdir=runs/llava --image=canvas.png --prompt='How many digits are there?' --temperature=0

and in the two stages of the paper (Liu et al. 2023a, section 4.2):

    txjax train --config=configs/multimodal/llava_canvases.py:projector --workdir=runs/llava_projector
    txjax train --config=configs/multimodal/llava_canvases.py:answers --workdir=runs/llava_answers \
        --config.init_from=runs/llava_projector

`whole` (the default) trains everything at once, the tower too. Stage 1, `projector`, trains the projector alone, on an
image and its caption, here the number; stage 2, `answers`, the language model too, on a question and its answer. Their
tower is frozen, so it should be trained already: `init_from` of stage 1 names its run, with `here="vision"`, and the
language model's. The canvases are made once (docs/data.md).

Cost: 5 minutes on two CPU cores that had other work, too.
Score: eval/test/accuracy 0.96 of the tokens of held-out answers by `whole`: a space, the number, the end. The
commonest number is right for 34% of the canvases, which would be 0.78. The two stages are not run here.
"""

from txjax.data import Conversations, PlainTemplate, QuestionTurns, TemplateQuestions, VicunaTemplate
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.nn import Learned, Stack
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine, train_all_but, train_only

STEPS = 600
# The template of each stage, its learning rate, and what it trains.
STAGES = {
    "whole": (VicunaTemplate(system=""), 1e-3, AdamW().groups),
    "projector": (PlainTemplate(), 2e-3, train_only("projector/.*")),
    "answers": (VicunaTemplate(system=""), 1e-3, train_all_but("vision/.*")),
}
VARIANTS = tuple(STAGES)


def get_config(stage: str = "whole") -> Experiment:
    template, rate, groups = STAGES[stage]
    stack = Stack() if stage == "whole" else Stack(outputs=(-2,))
    canvases = dict(
        turns=QuestionTurns(TemplateQuestions("How many digits are there?", "{count}")),
        template=template,
        image_feature="image",
        image_tokens=64,
        length=128,
        shape=(64, 64, 1),
        mean=(0.2,),
        std=(0.25,),
    )
    return Experiment(
        model=LLaVA(
            vocab=258,
            width=96,
            depth=3,
            heads=4,
            image_token=256,
            vision=CLIPImageTower(patch=8, width=64, depth=3, heads=4, positions=Learned(max_length=65), stack=stack),
        ),
        objective=NextToken(),
        data=Conversations(name="txjax_canvases", split="train", **canvases),
        evals={"test": Evaluation(data=Conversations(split="test", **canvases), every_steps=STEPS // 3)},
        optimizer=AdamW(peak_lr=rate, weight_decay=0.0, schedule=Cosine(warmup_steps=50, final=0.0), groups=groups),
        num_steps=STEPS,
        batch_size=32,
        log_every_steps=50,
    )
