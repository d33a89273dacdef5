"""Generation of text with decoders and encoder-decoders: generators call a model, searches choose the tokens.

See `docs/generation.md`.
"""

from txjax.decoding.beam import Beam, Hypotheses
from txjax.decoding.generator import Cached, Generator, Inputs, Recomputed, empty_cache, generator_for
from txjax.decoding.normalized_beam import NormalizedBeam
from txjax.decoding.parallel_decoding import ParallelDecoding
from txjax.decoding.prompts import Beginnings, Prompts, Sources, pad_prompts, prompts_for, until
from txjax.decoding.sampling import Sampling, stream
from txjax.decoding.text_search import Search

__all__ = [
    "Beam",
    "Beginnings",
    "Cached",
    "Generator",
    "Hypotheses",
    "Inputs",
    "NormalizedBeam",
    "ParallelDecoding",
    "Prompts",
    "Recomputed",
    "Sampling",
    "Search",
    "Sources",
    "empty_cache",
    "generator_for",
    "pad_prompts",
    "prompts_for",
    "stream",
    "until",
]
