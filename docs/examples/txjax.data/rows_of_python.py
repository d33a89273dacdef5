"""Rows that a program makes."""

from txjax.data import Completions, PythonRows


class Sums(PythonRows):
    """All sums of two digits."""

    def rows(self):
        return [{"prompt": f"{a} + {b} =", "answer": f" {a + b}"} for a in range(10) for b in range(10)]


train = Completions(source=Sums(held_out=0.2), length=16)
test = Completions(source=Sums(held_out=0.2), split="test", length=16)
print(len(train.open()), len(test.open()))  # 56 23
