"""Speech to text: an encoder of audio, and a Transformer's decoder that reads its output."""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.models.audio.audio_encoder import AudioEncoder, with_features
from txjax.models.conditional_decoder import ConditionalDecoder
from txjax.nn import Encoded, Head
from txjax.parametrization import Scaling
from txjax.types import Batch, config_field


class SpeechTransformer(ConditionalDecoder, kw_only=True):
    """The Speech-Transformer (Dong et al. 2018), or another encoder of audio with its decoder.

    `speech_transformer`, `speech2text` and `whisper` return ones in a published style. Width, depth, heads and all
    other fields are those of the decoder; the encoder has its own, its front end among them.

    Parameters: `encoder`, `embed`, `decoder` (`positions`, `layers`, `norm_final`), those of the head, and `ctc_head`.

    Attributes:
      encoder: an encoder of audio with `head=None`, of any width.
      ctc_head: from the encoder's frames to the classes of CTC, such as `TokenClasses(vocab + 1)`, for `JointCTC`. If
        None, there is none.
    """

    source_name: ClassVar[str] = "features"
    source_hint: ClassVar[str] = "NextToken on Utterances whose tokenizer has a token that ends a text does"

    encoder: AudioEncoder = config_field()
    ctc_head: Head | None = None

    @nn.nowrap
    def inputs(self, batch: Batch) -> dict[str, Any]:
        return super().inputs(with_features(self.encoder.front_end, batch))

    @nn.nowrap
    def scalings(self) -> dict[str, Scaling | None]:
        """The head of CTC reads the encoder's features, whose sizes it scales by."""
        scalings = super().scalings()
        return scalings if self.ctc_head is None else {**scalings, "ctc_head": self.encoder.scaling()}

    def __call__(
        self,
        tokens: Int[Array, "B L"],
        features: Float[Array, "B T C"] | None = None,
        features_length: Int[Array, "B"] | None = None,
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> Any:
        """The head's output: by default, lazy logits [B L V] of the token after each one.

        Args:
          tokens: the text, which begins with a start token.
          features: frames of the audio. If None, those of an earlier call of step-by-step decoding.
          features_length: frames that are not padding. If None, all are.
          segments: 0 for tokens that are padding. If None, none is.
          positions: of each token. If None, its index in the window.

        Raises:
          UserError: there are no features, or the encoder has a head.
        """
        return self.frames_and_text(tokens, features, features_length, segments, positions, train)[1]

    @nn.compact
    def frames_and_text(
        self,
        tokens: Int[Array, "B L"],
        features: Float[Array, "B T C"] | None = None,
        features_length: Int[Array, "B"] | None = None,
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> tuple[Any, Any]:
        """The output of `ctc_head`, [B F classes] of each of `encoder.output_length` frames, and that of `__call__`.

        The encoder is called once. The first is None if there is no such head, or without features.
        """
        source = None if features is None else self.encoder(features, features_length, train=train)
        if not isinstance(source, Encoded | None):
            got = type(self.encoder.head).__name__
            raise UserError("config.model.encoder.head", "None, since the decoder reads the encoder's features", got)
        text = self.decode(self.table(self.vocab, "embed"), tokens, source, segments, positions, train)
        return self._classify_frames(source, train), text

    def _classify_frames(self, source: Encoded | None, train: bool) -> Any:
        """The output of `ctc_head`, whose parameters are drawn as those of a head of the encoder would be."""
        head = self.ctc_head
        if head is None or source is None:
            return None
        context = dataclasses.replace(self.encoder.head_context(train), module=self)
        return context.within("ctc_head", lambda context: head(source, context))
