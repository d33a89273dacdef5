"""An evaluation that writes a picture and a table, and kills its process at a step, once."""

import dataclasses
import json
import os
import signal
import struct
import time
import zlib
from pathlib import Path

from txjax.eval.evaluator import Context, Evaluate, Evaluator

WAIT_STEP = 159  # where trackers, which take seconds to start, are waited for
KILL_STEP = 212


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(step: int) -> bytes:
    """A PNG file of one pixel, whose gray is the step's."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixel = zlib.compress(bytes([0, step % 256]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def table(step: int) -> str:
    """Two columns."""
    return f"class  count\n<a>    {step}"


def last_step(workdir: Path) -> int:
    """The last step that TensorBoard's tracker has written."""
    path = workdir / "trackers" / "tensorboard.json"
    return json.loads(path.read_text())["step"] if path.exists() else 0


@dataclasses.dataclass
class Killed(Evaluator):
    """The step is the score, too."""

    def start(self, context: Context) -> Evaluate:
        def evaluate(_, step: int) -> dict[str, float]:
            context.write("pictures", step, "png", picture(step))
            context.write("tables", step, "txt", table(step).encode())
            assert context.folder is not None
            first = not (context.folder / "killed").exists()
            if step == WAIT_STEP and first:
                while last_step(context.folder) < step - 1 or not [*context.folder.glob("wandb/*/*.wandb")]:
                    time.sleep(0.1)
                time.sleep(2)  # the other trackers don't say how far they are
            if step == KILL_STEP and first:
                (context.folder / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return {"step": float(step)}

        return evaluate
