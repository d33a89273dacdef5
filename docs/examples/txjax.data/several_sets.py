"""Several data sets.

They are side by side for several tasks, or mixed by weights.
"""

from txjax.data import TFDS, Images, Mixture, NextTokenWindows, Tasks, TextFiles

digits = Images(source=TFDS(name="txjax_digits"), shape=(8, 8, 1))
code = NextTokenWindows(source=TFDS(name="txjax_python_text"), length=64)
both = Tasks(parts={"images": digits, "texts": code}, rows={"images": 2})
print(both.spec()["images/image"].shape, both.spec()["texts/tokens"].shape)  # (2, 8, 8, 1) (1, 64)

notes = NextTokenWindows(source=TextFiles("notes/*.txt"), length=64)
mixture = Mixture(parts={"code": code, "notes": notes}, weights={"code": 0.7, "notes": 0.3})
print(sorted(mixture.spec()))  # ['id', 'positions', 'segments', 'targets', 'tokens', 'weights']
