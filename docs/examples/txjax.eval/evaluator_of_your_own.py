"""An evaluator of your own.

The mean probability of the likeliest token.
"""

import dataclasses

import jax

import txjax
from txjax.data import NextTokenWindows
from txjax.eval import Evaluator
from txjax.eval.evaluation import add, mean_of
from txjax.nn import Logits
from txjax.types import Mean


@dataclasses.dataclass
class Confidence(Evaluator):
    """Scores: `confidence`."""

    def start(self, context):
        model, objective = context.model, context.objective

        def confidence(variables, batch):
            logits = Logits.of(model.apply(variables, **objective.inputs(model, batch), train=False))
            return Mean.of(logits.reduce(lambda rows: jax.nn.softmax(rows).max(-1)), batch["weights"])

        program = context.program(confidence)
        return lambda variables, step: {
            "confidence": mean_of(add(context.run_batches(program, variables, context.source, self.max_batches)))
        }


experiment = txjax.load_config("txjax:text/gpt_tiny", {"trackers": (), "checkpoint.best": None})
text = NextTokenWindows(split="validation")
experiment.evals = {"sure": Confidence(data=text, every_steps=2, max_batches=2)}
run = txjax.fit(experiment, "runs/sure", until=2)
print([name for row in run.metrics for name in row if name.startswith("eval/")])
# ['eval/sure/confidence']
