"""Generation of text with decoders and encoder-decoders: generators call a model, searches choose the tokens.

See `docs/generation.md`.
"""

from typing import TYPE_CHECKING

from txjax.lazy_names import import_lazily

if TYPE_CHECKING:
    from txjax.decoding.beam import Beam, Hypotheses
    from txjax.decoding.chat import Chat, Conversation
    from txjax.decoding.ctc_alignment import Alignment, align
    from txjax.decoding.ctc_search import BestPath, CTCSearch, CTCTexts, PrefixBeam
    from txjax.decoding.generator import Cached, Generator, Inputs, Recomputed, empty_cache, generator_for
    from txjax.decoding.joint_beam import JointBeam
    from txjax.decoding.language_models import LanguageModel, Rescoring, ShallowFusion
    from txjax.decoding.ngram import Ngram
    from txjax.decoding.normalized_beam import NormalizedBeam
    from txjax.decoding.parallel_decoding import ParallelDecoding
    from txjax.decoding.prompt_forms import prompts_for
    from txjax.decoding.prompts import Beginnings, Prompts, Sources, pad_prompts, until
    from txjax.decoding.rescoring import LanguageRows, language_log_probs, language_rows, rescore
    from txjax.decoding.sampling import Sampling, stream
    from txjax.decoding.shallow_fusion import Fused
    from txjax.decoding.spoken_prompts import SpokenPrompts
    from txjax.decoding.text_search import Search
else:
    __getattr__ = import_lazily(__name__)

__all__ = [
    "Beam",
    "BestPath",
    "ParallelDecoding",
    "PrefixBeam",
    "Sampling",
    "Search",
]
