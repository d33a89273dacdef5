"""Origins of parameters.

Other runs, or parts of them under other paths, are values of `Experiment.init_from`.
"""

from txjax.transfer import From

encoder = From("runs/mae@best", omit=("head",))
teacher = From("runs/teacher", here="teacher")
for path in ("layers/block/mlp/up/kernel", "head/kernel", "teacher/embed/embedding"):
    print(path, "|", encoder.path_there(path), "|", teacher.path_there(path))
# layers/block/mlp/up/kernel | layers/block/mlp/up/kernel | None
# head/kernel | None | None
# teacher/embed/embedding | teacher/embed/embedding | embed/embedding
