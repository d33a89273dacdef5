"""A scaling law.

It is fitted to a table of runs, and predicts the loss of a larger one.
"""

import itertools

import pandas as pd

import txjax

sizes, tokens = [1e6, 3e6, 1e7, 3e7], [1e8, 3e8, 1e9]
rows = [
    {"params": n, "tokens": d, "loss": 1.69 + 406.4 / n**0.34 + 410.7 / d**0.28}
    for n, d in itertools.product(sizes, tokens)
]
pd.DataFrame(rows).to_csv("runs.csv", index=False)
law = txjax.fit_law("runs.csv", form="parametric", bootstrap=0)
print({name: round(value, 2) for name, value in law.fitted.parameters.items()})
# {'E': 1.69, 'A': 406.4, 'B': 410.7, 'alpha': 0.34, 'beta': 0.28}
prediction = law.predict({"params": 1e8, "tokens": 2e9})
print(round(prediction["loss"], 3))  # 3.486
