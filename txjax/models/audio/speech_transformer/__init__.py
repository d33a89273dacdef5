"""Speech to text by a decoder that attends to an encoder of audio."""

from txjax.models.audio.speech_transformer.published_styles import speech2text, speech_transformer, whisper
from txjax.models.audio.speech_transformer.speech_transformer import SpeechTransformer
from txjax.models.audio.speech_transformer.window_encoder import WindowEncoder

__all__ = ["SpeechTransformer", "speech2text", "speech_transformer", "whisper"]
