"""Language models.

Scores, and texts that the model writes while it is trained.
"""

import txjax
from txjax.data import NextTokenWindows
from txjax.decoding import Sampling
from txjax.eval import Harness, Perplexity, Samples

experiment = txjax.load_config("txjax:text/gpt_tiny", {"trackers": (), "checkpoint.best": None})
valid = dict(data=NextTokenWindows(split="validation"), every_steps=2)
experiment.evals = {
    "valid": Perplexity(**valid, max_batches=2),
    "written": Samples(**valid, prompts=("def ",), texts=2, length=20, search=Sampling(temperature=0.8)),
}
run = txjax.fit(experiment, "runs/gpt", until=2)
print(sorted(run.evaluate()))
# ['eval/valid/bits_per_byte', 'eval/valid/loss', 'eval/valid/perplexity']
print((run.workdir / "samples" / "written" / "2.txt").exists())  # True

# After the training also tasks of lm-evaluation-harness, the extra `harness`.
experiment.evals["tasks"] = Harness(**valid, tasks=("hellaswag", "arc_easy"), limit=100)
