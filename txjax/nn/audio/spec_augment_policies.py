"""SpecAugment with the numbers of published recipes."""

from txjax.nn.audio.front_ends import AUDIOSET
from txjax.nn.audio.spec_augment import AxisMasks, Constant, SpecAugment


def librispeech_basic() -> SpecAugment:
    """LibriSpeech basic, LB (Park et al. 2019, table 1), without time warping."""
    return SpecAugment(frequency=AxisMasks(count=1, width=27), time=AxisMasks(count=1, width=100))


def librispeech_double() -> SpecAugment:
    """LibriSpeech double, LD (Park et al. 2019, table 1), without time warping; Speech2Text has it, too."""
    return SpecAugment(frequency=AxisMasks(count=2, width=27), time=AxisMasks(count=2, width=100))


def switchboard_mild() -> SpecAugment:
    """Switchboard mild, SM (Park et al. 2019, table 1), without time warping."""
    return SpecAugment(frequency=AxisMasks(count=2, width=15), time=AxisMasks(count=2, width=70, share=0.2))


def switchboard_strong() -> SpecAugment:
    """Switchboard strong, SS (Park et al. 2019, table 1), without time warping."""
    return SpecAugment(frequency=AxisMasks(count=2, width=27), time=AxisMasks(count=2, width=70, share=0.2))


def conformer_policy() -> SpecAugment:
    """Ten masks of up to 5% of the utterance and two of up to 27 bins (Gulati et al. 2020, 3.1)."""
    return SpecAugment(frequency=AxisMasks(count=2, width=27), time=AxisMasks(count=10, share=0.05))


def audio_spectrogram_policy(statistics: tuple[float, float] = AUDIOSET) -> SpecAugment:
    """One mask of up to 48 bins and one of up to 192 frames (Gong et al. 2021, 2.2).

    The authors write 0 before features are normalised.

    Args:
      statistics: mean and deviation of the data set's features, as in `front_ends.audio_spectrogram`.
    """
    mean, deviation = statistics
    return SpecAugment(
        frequency=AxisMasks(count=1, width=48),
        time=AxisMasks(count=1, width=192),
        fill=Constant(-mean / (2 * deviation)),
    )
