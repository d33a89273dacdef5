"""Classification by prompts.

Which class's name is the likeliest text after a prompt.
"""

import json
from pathlib import Path

import txjax
from txjax.data import JSONLines, PromptedChoices
from txjax.eval import Prompted

rows = [{"text": f"{n} films", "label": ("bad", "good")[n % 2]} for n in range(100)]
Path("films.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
films = PromptedChoices(
    source=JSONLines("films.jsonl"), split="test", template="Review: {text}\nVerdict: {label}", length=128
)
experiment = txjax.load_config("txjax:text/gpt_tiny", {"trackers": (), "checkpoint.best": None})
experiment.evals = {"films": Prompted(data=films, shots=(0, 2))}
print(sorted(txjax.fit(experiment, "runs/films", until=2).evaluate()))
# ['eval/films/accuracy_0', 'eval/films/accuracy_2']
