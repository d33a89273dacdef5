"""What the mount of a folder says of its locks."""

import os
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
# Options of NFS and Lustre with which a lock holds on one machine alone (nfs(5), mount.lustre(8)).
_LOCAL = {"nolock", "local_lock=all", "local_lock=flock", "localflock"}


def has_shared_locks(folder: Path) -> bool:
    """Whether a lock in this folder keeps out processes of other machines, too, as far as its mount says.

    True where there is no list of mounts.
    """
    return not _LOCAL & set(mount_options(folder))


def mount_options(folder: Path) -> list[str]:
    """The options of the mount that a folder is on; none where there is no list of mounts (proc(5))."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        device = os.stat(folder).st_dev
    except OSError:
        return []
    name = f"{os.major(device)}:{os.minor(device)}"
    fields = [line.split(" ") for line in lines]
    return next((f"{line[5]},{line[-1]}".split(",") for line in fields if line[2:3] == [name]), [])
