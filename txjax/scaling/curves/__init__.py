"""Formulas of the loss, one file each."""

from txjax.scaling.curves.broken import Broken
from txjax.scaling.curves.curve import Curve
from txjax.scaling.curves.data_constrained import DataConstrained
from txjax.scaling.curves.kaplan import Kaplan
from txjax.scaling.curves.kaplan import Power as Power
from txjax.scaling.curves.overtraining import Overtraining
from txjax.scaling.curves.parametric import Parametric

__all__ = ["Broken", "Curve", "DataConstrained", "Kaplan", "Overtraining", "Parametric"]
