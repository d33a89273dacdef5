"""Language models beside the search of a recogniser: in its beam, or over the texts that it returned."""

import dataclasses

from txjax.decoding.beam import Beam
from txjax.decoding.ctc_search import CTCSearch, PrefixBeam
from txjax.decoding.text_search import Search
from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class LanguageModel:
    """A finished run of a causal model of texts, such as a `Decoder`, whose score is added to that of a search.

    Attributes:
      run: "WORKDIR" (its newest good step), "WORKDIR@best" or "WORKDIR@1500".
      weight: of log p(text).
    """

    run: str = config_field(text=True)
    weight: float = config_field(0.3, at_least=0)

    def check_search(self, field: str, search: CTCSearch | Search) -> None:
        """Raises UserError, for `field`, if the score can't be added to that of this search."""
        raise NotImplementedError


@dataclasses.dataclass
class Rescoring(LanguageModel):
    """The texts that a search returned are ordered by score + weight * log p(text) + bonus * symbols.

    The language model has its own tokenizer. A text begins with the token that begins those of its data (`roles`), and
    ends with the one that ends them, which is counted; if there is none, the end has no probability.

    Attributes:
      bonus: for each symbol of the recogniser, since other terms favour short texts.
    """

    bonus: float = 0.0

    def check_search(self, field: str, search: CTCSearch | Search) -> None:
        if not isinstance(search, PrefixBeam | Beam):
            hint = f"{type(search).__name__} has one text"
            raise UserError(field, "None, or a search of several texts: PrefixBeam(), Beam()", self.run, hint=hint)


@dataclasses.dataclass
class ShallowFusion(LanguageModel):
    """Each token adds weight * log p(token) to the score of its text in the beam of a decoder (Gulcehre et al. 2015).

    The tokens of both models are the same, in the same order. Scores are no probabilities then: they have no sum of 1.
    """

    def check_search(self, field: str, search: CTCSearch | Search) -> None:
        name = type(search).__name__
        if isinstance(search, PrefixBeam):
            hint = (
                "in a frame some prefixes grow and others stay, but a cache has one index for all rows; "
                "Rescoring() orders the texts that the beam returns"
            )
            raise UserError(field, "Rescoring(), for PrefixBeam()", type(self).__name__, hint=hint)
        if not isinstance(search, Beam):
            raise UserError(field, "None, or the beam of a decoder: Beam()", self.run, hint=f"{name} has one text")
