"""Generation of text with causal models: generators call the model, searches choose; see `docs/generation.md`."""

from txjax.decoding.beam import Beam, Hypotheses
from txjax.decoding.generator import Cached, Generator, Inputs, Recomputed, empty_cache, generator_for
from txjax.decoding.prompts import padded, until
from txjax.decoding.sampling import Sampling, stream
from txjax.decoding.text_search import Search

__all__ = [
    "Beam",
    "Cached",
    "Generator",
    "Hypotheses",
    "Inputs",
    "Recomputed",
    "Sampling",
    "Search",
    "empty_cache",
    "generator_for",
    "padded",
    "stream",
    "until",
]
