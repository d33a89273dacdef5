"""x"""

from typing import Any, NamedTuple

from txjax.data import (
    AlternatingQuestions,
    Conversations,
    ConversationTemplate,
    ListingQuestions,
    PlainTemplate,
    PresenceQuestions,
    Questions,
    QuestionTurns,
    TemplateQuestions,
    VicunaTemplate,
)
from txjax.eval import Evaluation, Evaluator, GeneratedAnswers
from txjax.experiment import Experiment
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.models.text.decoder import Decoder
from txjax.nn import Attention, GatedMLP, Learned, RMSNorm, Stack, Untied
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine, train_all_but, train_only
from txjax.transfer import From

COUNT = TemplateQuestions("How many digits?", "{count}", kind="counting")
QUESTIONS = AlternatingQuestions((PresenceQuestions(), COUNT))
CAPTIONS = ListingQuestions("Which digits?")
CHAT = VicunaTemplate(system="")
LANGUAGE: dict[str, Any] = dict(
    vocab=258,
    width=48,
    depth=2,
    heads=4,
    norm=RMSNorm(),
    mixer=Attention(use_bias=False),
    mlp=GatedMLP(use_bias=False),
    head=Untied(),
)


class Stage(NamedTuple):
    """What differs between the runs.

    Attributes:
      questions: about the canvases.
      template: of their conversations.
      trained: the optimizer's groups.
      peak_lr: the highest learning rate.
      steps: of the run.
      origins: what it starts from; flags name the runs.
    """

    questions: Questions
    template: ConversationTemplate
    trained: Any
    peak_lr: float
    steps: int
    origins: tuple[From, ...] | From | None = None


ALL = AdamW().groups
STAGES = {
    "whole": Stage(QUESTIONS, CHAT, ALL, 2e-3, 2000),
    "tower": Stage(CAPTIONS, PlainTemplate(), ALL, 2e-3, 2000),
    "language": Stage(QUESTIONS, CHAT, ALL, 1e-3, 200),
    "projector": Stage(
        CAPTIONS, PlainTemplate(), train_only("projector/.*"), 2e-3, 300, (From(here="vision", there="vision"), From())
    ),
    "answers": Stage(QUESTIONS, CHAT, train_all_but("vision/.*"), 1e-3, 600, From()),
}
VARIANTS = tuple(STAGES)


def get_config(variant: str = "whole") -> Experiment:
    stage = STAGES[variant]
    sees = variant != "language"
    canvases: dict[str, Any] = dict(
        turns=QuestionTurns(stage.questions, images=int(sees)),
        template=stage.template,
        image_feature="image" if sees else "",
        image_tokens=64 if sees else 1,
        length=72 if stage.questions is CAPTIONS else 104 if sees else 40,
        shape=(64, 64, 1),
        mean=(0.2,),
        std=(0.25,),
    )
    vision = CLIPImageTower(
        patch=8,
        width=32,
        depth=3,
        heads=4,
        positions=Learned(max_length=65),
        stack=Stack(outputs=(-2,)) if variant in ("projector", "answers") else Stack(),
    )
    held_out = Conversations(split="test", **canvases)
    evals: dict[str, Evaluator] = {"test": Evaluation(data=held_out, every_steps=stage.steps // 4)}
    if sees:
        evals["answers"] = GeneratedAnswers(
            data=held_out, metrics=("exact_match",), every_steps=stage.steps, batch_size=100
        )
    return Experiment(
        model=LLaVA(image_token=256, vision=vision, **LANGUAGE) if sees else Decoder(**LANGUAGE),
        objective=NextToken(),
        data=Conversations(name="txjax_canvases", split="train", **canvases),
        evals=evals,
        optimizer=AdamW(
            peak_lr=stage.peak_lr,
            weight_decay=0.0,
            schedule=Cosine(warmup_steps=50, final=0.0),
            groups=stage.trained,
        ),
        num_steps=stage.steps,
        batch_size=32,
        log_every_steps=100,
        init_from=stage.origins,
    )
