"""One run at a time in a workdir of a bucket: it owns the newest entry, and shows by heartbeats that it lives."""

import logging
import os
import socket
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from txjax import distributed
from txjax.errors import RunError, UserError
from txjax.io.mounts import has_shared_locks
from txjax.train.bucket import commits
from txjax.train.bucket.client import Bucket
from txjax.train.bucket.commits import Entry, Files, name_of

BEAT_SECONDS = 5.0
DEAD_SECONDS = 30.0  # without a heartbeat, after which a run counts as dead
LOOK_SECONDS = 1.0
End = Callable[[int, str], object]  # ends a run, by its exit code and a message
BOOT = Path("/proc/sys/kernel/random/boot_id")
log = logging.getLogger("txjax")


class Overtaken(RunError):
    """Another run has taken the workdir."""


def place_of(handle: int, folder: Path) -> str | None:
    """The identity of a locked file: a run that had locked it before has ended.

    None where locks hold on one machine alone, or nothing identifies the machine.
    """
    if not (BOOT.exists() and has_shared_locks(folder)):
        return None
    status = os.fstat(handle)
    return f"{BOOT.read_text(encoding='utf-8').strip()} {status.st_dev} {status.st_ino}"


class Lease:
    """A run's ownership of a workdir: the newest entry is its own, and it alone creates the next one.

    Attributes:
      entry: the newest entry.
    """

    def __init__(self, bucket: Bucket, place: str | None, end: End = distributed.exit_process):
        """Takes the workdir; waits `DEAD_SECONDS` where its owner may be dead.

        Args:
          place: `place_of` the lock of this run's folder.
          end: called in a thread if another run has taken the workdir.

        Raises:
          UserError: another run is in it.
        """
        self.bucket = bucket
        number, before = commits.newest(bucket)
        if before is not None and not _has_ended(before, number, place):
            _wait_for_silence(bucket, before, number)
        who = f"process {os.getpid()} on {socket.gethostname()}"
        files: Files = {} if before is None else before.files
        self.entry = Entry(number + 1, number + 1, False, who, place, files)
        if not commits.append(bucket, self.entry):
            raise _refusal(bucket, commits.read(bucket, number + 1))
        self.owner = self.entry.owner
        self._end_run = end
        self._ending = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._beats.start()

    def commit(self, entry: Entry) -> None:
        """Creates the next entry, and removes the objects that only the one before needed.

        Raises:
          Overtaken: another run has taken the workdir.
        """
        if not commits.append(self.bucket, entry):
            raise self._overtaken(commits.read(self.bucket, entry.number))
        dropped = self.entry.keys() - entry.keys()
        self.entry = entry
        self._remove(sorted(dropped))

    def remove_leftovers(self) -> None:
        """Removes what runs that were killed had uploaded for entries that they did not create."""
        needed = self.entry.keys()
        for folder, end in (("files", self.owner + 1), ("beats", self.owner)):
            keys = [f"{folder}/{name}" for name in self.bucket.names(folder)]
            self._remove([key for key in keys if key < f"{folder}/{name_of(end)}" and key not in needed])

    def _remove(self, keys: Sequence[str]) -> None:
        """Removes objects that no entry needs. Where that fails they stay, with a warning."""
        try:
            self.bucket.remove(keys)
        except (UserError, RunError) as error:
            log.warning("%d objects that are not needed any more stay in %s: %s", len(keys), self.bucket.url, error)

    def _beat(self) -> None:
        beat = 0
        while not self._ending.wait(BEAT_SECONDS):
            beat += 1
            try:
                self.bucket.write(f"beats/{name_of(self.owner)}", beat_text(beat))
                other = commits.read(self.bucket, self.entry.number + 1)
            except (UserError, RunError) as error:
                log.warning("no heartbeat: %s", error)
                continue
            if other is not None and other.owner != self.owner:
                message = str(self._overtaken(other))
                log.error(message)
                self._end_run(RunError.code, message)
                return

    def _overtaken(self, other: Entry | None) -> Overtaken:
        who = other.who if other else "another process"
        return Overtaken(f"{self.bucket.url}: {who} has taken the workdir: this run leaves it")

    def stop(self) -> None:
        """Ends the heartbeats."""
        self._ending.set()
        self._beats.join()

    def end(self) -> None:
        """Leaves the workdir to other runs."""
        self.commit(self.entry.after(ended=True))
        self._remove([f"beats/{name_of(self.owner)}"])


def _has_ended(entry: Entry, number: int, place: str | None) -> bool:
    """Whether the run of the newest undamaged entry has ended for sure. `number`: of the newest entry."""
    return entry.number == number and (entry.ended or (place is not None and entry.place == place))


def _wait_for_silence(bucket: Bucket, entry: Entry, number: int) -> None:
    """Returns when the owner of the newest entry was silent for `DEAD_SECONDS`. Raises UserError at a heartbeat."""
    key = f"beats/{name_of(entry.owner)}"
    first = parse_beat(bucket.read(key))
    begun = time.monotonic()
    is_silent = False
    while time.monotonic() - begun < DEAD_SECONDS:
        time.sleep(LOOK_SECONDS)
        beat = parse_beat(bucket.read(key))
        first = beat if first is None else first
        if beat not in (first, None) or commits.read(bucket, number + 1) is not None:
            raise _refusal(bucket, entry)
        if not is_silent and time.monotonic() - begun > 2 * BEAT_SECONDS:
            log.warning("%s is of %s, which is silent: waiting %.0f s", bucket.url, entry.who, DEAD_SECONDS)
            is_silent = True


def beat_text(number: int) -> bytes:
    """A heartbeat with its checksum, so that a damaged answer is not taken for another one."""
    return f"{number} {zlib.crc32(str(number).encode()):08x}".encode()


def parse_beat(content: bytes | None) -> int | None:
    """The number of a heartbeat; 0 if there was none yet, None if it is damaged."""
    if content is None:
        return 0
    digits = content.partition(b" ")[0]
    return int(digits) if digits.isdigit() and content == beat_text(int(digits)) else None


def _refusal(bucket: Bucket, entry: Entry | None) -> UserError:
    hint = f"{entry.who if entry else 'another process'} is in it; wait, or take another"
    return UserError(bucket.field, "a folder that no other run is using", bucket.url, hint=hint)
