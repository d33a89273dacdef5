"""The logical axes of a model's parameters, from its experiment or from the family of an imported one."""

from typing import Any

from txjax.axes import Axes


def model_axes(source: Any, model: Any, params: dict[str, Any]) -> dict[str, Axes]:
    """The axes by path.

    Args:
      source: the experiment that gives the model's inputs, or the imported model alone.
      model: this model, or a variant of it.
      params: of the model as it was found, by path.
    """
    import dataclasses

    from flax.core import meta

    from txjax.axes import axes_of
    from txjax.experiment import Experiment
    from txjax.interop.huggingface.catalog import family_of
    from txjax.interop.huggingface.options import Options
    from txjax.interop.peft import peft
    from txjax.train.state.state import abstract_variables
    from txjax.types import flat_paths

    if not isinstance(source, Experiment):
        family = family_of(source)
        return peft.axes(family, model, Options(family.config(source, params)))
    boxed = abstract_variables(dataclasses.replace(source, model=model))["params"]
    flat = flat_paths(boxed, is_leaf=lambda node: isinstance(node, meta.AxisMetadata))
    return {path: axes_of(x) for path, x in flat.items()}
