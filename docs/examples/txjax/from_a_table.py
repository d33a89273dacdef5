"""A classifier of a table.

The table is the training data, and predictions take rows like its own.
"""

import pandas as pd

import txjax

words = {"good": ["fine", "great", "lovely"], "bad": ["dull", "awful", "boring"]}
rows = [
    {"review": f"A {word} film, {n}.", "stars": label} for label in words for word in words[label] for n in range(40)
]
fields = {
    "data.source": pd.DataFrame(rows),
    "data.text": "review",
    "data.label": "stars",
    "model.width": 32,
    "model.depth": 1,
    "optimizer.schedule.warmup_steps": 10,
    "num_steps": 120,
}
experiment = txjax.load_config("txjax:text/classifier", fields)
run = txjax.fit(experiment, "runs/reviews")
print(run.finished, run.evaluate()["eval/test/accuracy"])  # True 1.0

run = txjax.open("runs/reviews", step="last")
print(isinstance(run, txjax.Run), [prediction.label for prediction in run.predict([{"review": "A lovely film."}])])
# True ['good']
