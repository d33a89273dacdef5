"""txjax: Transformers of every family in JAX and Flax, with one trainer."""

__version__ = "0.1.0"
