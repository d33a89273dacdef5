"""Several data sets.

Side by side for several tasks, or mixed by weights.
"""

from txjax.data import TFDS, Images, Mixture, NextTokenWindows, Tasks

digits = Images(source=TFDS(name="txjax_digits"), shape=(8, 8, 1))
code = NextTokenWindows(source=TFDS(name="txjax_python_text"), length=64)
both = Tasks(parts={"images": digits, "texts": code}, rows={"images": 2})
print(both.spec()["images/image"].shape, both.spec()["texts/tokens"].shape)
# (2, 8, 8, 1) (1, 64)

held_out = NextTokenWindows(source=TFDS(name="txjax_python_text"), split="validation", length=64)
mixture = Mixture(parts={"train": code, "validation": held_out}, weights={"train": 0.9, "validation": 0.1})
print(sorted(mixture.spec()))
# ['id', 'positions', 'segments', 'targets', 'tokens', 'weights']
