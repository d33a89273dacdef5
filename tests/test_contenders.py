"""The models in PyTorch that the benchmarks time are those of txjax."""

import pytest
from flax.core import meta

from txjax.train.state.counting import count_parameters
from txjax.train.state.state import abstract_variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "models in PyTorch that the benchmarks time have as many parameters ([performance.md](performance.md))",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "bert",
        "electra",
        "deberta",
        "conformer",
        "branchformer",
        "ast",
        "speech2text",
        "clip",
        "llava",
        "vilbert",
        "unit",
    ],
)
def test_both_sides_have_equally_many_parameters(kind, root, monkeypatch):
    torch = pytest.importorskip("torch", reason="txjax[parity]")
    if kind == "branchformer":
        pytest.importorskip("espnet2", reason="pip install --no-deps espnet typeguard")
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import torch_models
    from models import SIZES, experiment

    ours, _ = count_parameters(meta.unbox(abstract_variables(experiment(kind, SIZES[kind], "float32")))["params"])
    with torch.device("meta"):
        theirs = torch_models.KINDS[kind](**{name: x for name, x in SIZES[kind].items() if name != "batch"})
    assert ours == sum(p.numel() for p in theirs.parameters())
