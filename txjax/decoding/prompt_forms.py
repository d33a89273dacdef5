"""How a model gets its prompts, by the data that it was trained on."""

from txjax.data import Completions, Conversations, Dataset, Pairs, Tokenizer, TokenizerFolder, Utterances
from txjax.data.text.text_windows import Text
from txjax.decoding.pictured_prompts import PicturedPrompts
from txjax.decoding.prompts import Beginnings, Prompts, Sources, template_features
from txjax.decoding.spoken_prompts import SpokenPrompts
from txjax.errors import UserError


def prompts_for(data: Dataset, field: str) -> Prompts:
    """How a model that is trained on `data` gets its prompts.

    A prompt of an encoder-decoder is put into the format string of the sources if that has one feature, a text or a
    class. With several features, and in a mixture of different format strings, it is the whole source.

    Args:
      field: the field or flag that names the data, for messages.

    Raises:
      UserError: the data are no text whose next tokens are predicted.
    """
    if isinstance(data, Utterances):
        return SpokenPrompts.of(data, field)
    if isinstance(data, Conversations):
        return PicturedPrompts.of(data)
    spec = data.spec()
    parts = list(getattr(data, "parts", {}).values()) or [data]
    pairs = [part for part in parts if isinstance(part, Pairs)]
    if "source_tokens" in spec and len(pairs) == len(parts):
        templates = {part.source_text for part in pairs}
        features = set().union(*map(template_features, templates))
        one = len(templates) == len(features) == 1 and not any(form for _, form in features)
        first = pairs[0]
        template = first.source_text if one else None
        return Sources(first.tokenizer, (first.tokenizer.special(first.end),), pairs=first, template=template)
    tokenizer = getattr(data, "tokenizer", None)
    if tokenizer is None or "targets" not in spec or "source_tokens" in spec:
        expected = "text of a decoder, with a tokenizer and targets, or Pairs of an encoder-decoder"
        raise UserError(field, expected, type(data).__name__)
    ends = {ends_of(part, tokenizer) for part in parts} - {()}
    return Beginnings(tokenizer, ends.pop() if len(ends) == 1 else ())


def ends_of(data: Dataset, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens that end texts of a decoder's data: their own, and for windows those of the tokenizer's files."""
    if isinstance(data, Completions):
        return data.ends()
    marks = data.marks()[1] if isinstance(data, Text) else ()
    named = tokenizer.roles().eos if isinstance(tokenizer, TokenizerFolder) else ()
    return tuple(dict.fromkeys((*marks, *named)))
