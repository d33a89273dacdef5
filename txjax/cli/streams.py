"""Standard streams that stop no command: a reader may leave, and an encoding may lack characters."""

import io
import os
import sys


class _Lasting(io.FileIO):
    """A file whose reader may leave: what is written afterwards is dropped."""

    def write(self, data) -> int:  # type: ignore[no-untyped-def, override]
        try:
            return super().write(data)
        except BrokenPipeError:
            _drop(self.fileno())
            return memoryview(data).nbytes


def _drop(handle: int) -> None:
    """From now on, what is written to an open file is dropped."""
    with open(os.devnull, "wb", buffering=0) as nothing:
        os.dup2(nothing.fileno(), handle)


def open_streams() -> None:
    """Replaces this process's own stdout and stderr; leaves those that a caller has put in their place.

    A character that the encoding lacks is written as Python escapes it, such as `\\xfc`.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            stream.flush()
            buffer = io.BufferedWriter(_Lasting(stream.fileno(), "wb", closefd=False))
            lines = stream.line_buffering
            escaping = io.TextIOWrapper(buffer, stream.encoding, "backslashreplace", line_buffering=lines)
            setattr(sys, name, escaping)


def flush_streams() -> None:
    """Writes what is left; drops what can't be written, of which Python would print a traceback when it ends."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # a stream may be closed from the start
        try:
            stream.flush()
        except OSError:
            _drop(stream.fileno())
        except ValueError:  # it is closed
            pass
