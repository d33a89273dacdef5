"""A data set with an injected fault in one process, after some examples, set by environment variables."""

import dataclasses
import os
import signal
import time

import jax

from txjax.data import NextTokenWindows, Source

AFTER = 60  # examples


@dataclasses.dataclass
class Faulty(NextTokenWindows):
    """NextTokenWindows that raises, sleeps, slows down or is killed (FAULT) in process FAULTY_PROCESS."""

    def open(self) -> Source:
        return FaultySource(super().open())


class FaultySource:
    def __init__(self, source: Source):
        self.source = source
        self.fingerprint = source.fingerprint
        self.read = 0
        self.here = os.environ.get("FAULTY_PROCESS") == str(jax.process_index())
        if self.here and os.environ["FAULT"] == "other data":
            self.fingerprint = "other"

    def __len__(self):
        return len(self.source)

    def example(self, index, epoch, rng):
        self.read += 1
        if self.here and self.read > AFTER:
            if os.environ["FAULT"] == "raise":
                raise RuntimeError("the data are on fire")
            if os.environ["FAULT"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if os.environ["FAULT"] == "sleep":
                time.sleep(600)
            if os.environ["FAULT"] == "slow":
                time.sleep(0.05)
        return self.source.example(index, epoch, rng)
