"""A picture of a page, with the sound that it is of."""

import dataclasses
from collections.abc import Sequence

from txjax.report.wav import wav_address

MOST_SOUND = 2_000_000  # bytes of sound that a page has, as text


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture of the page.

    Attributes:
      name: of its file, without `.png`.
      section: the heading that it is under.
      caption: what it shows.
      content: the PNG.
      recording: what it is a picture of, a WAV file `name.wav`. None without one.
    """

    name: str
    section: str
    caption: str
    content: bytes
    recording: bytes | None = None

    def files(self) -> dict[str, bytes]:
        """Its files, by name."""
        return {f"{self.name}.png": self.content} | (
            {} if self.recording is None else {f"{self.name}.wav": self.recording}
        )


def limit_sound(pictures: Sequence[Picture]) -> tuple[list[Picture], list[str]]:
    """The pictures, of which the first have sound up to `MOST_SOUND`, and a line about those that have not."""
    limited = []
    without = []
    total = 0
    for picture in pictures:
        size = 0 if picture.recording is None else len(wav_address(picture.recording))
        if total + size > MOST_SOUND:
            without.append(f"{picture.name}.wav")
            picture = dataclasses.replace(picture, recording=None)
        else:
            total += size
        limited.append(picture)
    if not without:
        return limited, []
    return limited, [f"a page has at most {MOST_SOUND / 1e6:g} MB of sound; in its folder is {', '.join(without)}"]
