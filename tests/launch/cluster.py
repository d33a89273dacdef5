"""A real Slurm of two nodes on this machine, for as long as a test session: own config, own ports, loopback only.

Two `slurmd` play two nodes. The packages are Debian's (`slurmctld slurmd slurm-client munge`); where they are missing
they are installed, which takes root. They stay; everything else is gone when the cluster is down.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
HOSTS = Path("/etc/hosts")

# A job in `high` evicts jobs of `low`, which get SIGTERM and 20 seconds. No cgroups; nodes claim more than is there.
CONFIG = """
ClusterName=made
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
KillWait=10
SlurmdTimeout=6
ReturnToService=2
MinJobAge=3600
FirstJobId={first_job}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
NodeName={nodes[0]} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 RealMemory=4000 Gres=gpu:2
NodeName={nodes[1]} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 RealMemory=4000 Gres=gpu:2
PartitionName=main Nodes={nodes[0]},{nodes[1]} Default=YES PriorityTier=10 PreemptMode=OFF
PartitionName=low Nodes={nodes[0]},{nodes[1]} PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=high Nodes={nodes[0]},{nodes[1]} PriorityTier=99 PreemptMode=OFF
"""


def missing() -> str:
    """The reason why no cluster can run here, or an empty string."""
    if os.geteuid() != 0:
        return "Slurm's daemons for a test take root"
    if not all(map(shutil.which, PROGRAMS)) and not shutil.which("apt-get"):
        return "no Slurm here, and no apt-get to install it"
    return ""


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """A lock, so that one test worker at a time changes the machine."""
    with (Path(tempfile.gettempdir()) / "slurm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install() -> None:
    """Debian's packages, without starting their own daemons."""
    with alone():
        if all(map(shutil.which, PROGRAMS)):
            return
        policy = Path("/usr/sbin/policy-rc.d")
        made = not policy.exists()
        if made:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        quiet = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            for words in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
                subprocess.run([*quiet, *words], check=True, env=environment, stdout=subprocess.DEVNULL, timeout=600)
        finally:
            if made:
                policy.unlink()


class Cluster:
    """A running cluster. `environment` has the variables that a process needs to use it."""

    def __init__(self) -> None:
        install()
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.folder.chmod(0o755)  # munge requires a world-readable folder for its socket
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ports = [s.getsockname()[1] for s in sockets]
        for s in sockets:
            s.close()
        self.nodes = [f"made{ports[0]}a", f"made{ports[0]}b"]
        # Programs that come from the disk deadlock in the collectives of several processes on CPUs.
        others = ("SLURM", "SBATCH", "JAX_COMPILATION_CACHE")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(others)}
        self.environment |= {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self._daemons: dict[str, subprocess.Popen] = {}
        host = socket.gethostname().split(".")[0]
        # JAX takes its port from the job's number: clusters side by side count from different ones.
        text = CONFIG.format(
            host=host, folder=self.folder, ports=ports, nodes=self.nodes, first_job=ports[0] % 4000 + 1
        )
        try:
            self._start(text)
        except BaseException:
            self.down()
            raise

    def _start(self, config: str) -> None:
        (self.folder / "state").mkdir()
        (self.folder / "slurm.conf").write_text(config)
        for number in range(2):  # a GPU is any character device
            (self.folder / f"nvidia{number}").symlink_to("/dev/null")
        gpus = f"Name=gpu Flags=nvidia_gpu_env File={self.folder}/nvidia[0-1]"
        (self.folder / "gres.conf").write_text(f"NodeName={','.join(self.nodes)} {gpus}\n")
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        with alone():  # JAX looks up the names of nodes
            lines = HOSTS.read_text().splitlines() + [f"127.0.0.1 {node} # {self.folder}" for node in self.nodes]
            HOSTS.write_text("\n".join(lines) + "\n")
        files = [f"--{name}={self.folder}/munge.{name.split('-')[0]}" for name in ("key-file", "socket", "pid-file")]
        more = [f"--seed-file={self.folder}/munge.seed", f"--log-file={self.folder}/munge.log"]
        self._daemon("munged", "--foreground", *files, *more)
        self._until((self.folder / "munge.socket").exists, 20, "munged")
        self._daemon("slurmctld", "-D", "-i")
        for node in self.nodes:
            self.revive(node)
        self._until(lambda: self.ask("sinfo", "-h", "-N", "-p", "main", "-t", "idle").count("\n") == 2, 60, "the nodes")

    def _daemon(self, program: str, *flags: str) -> None:
        name = " ".join((program, *flags[-1:]))
        with (self.folder / f"{name.replace('/', '_')[:40]}.log").open("a") as log:
            self._daemons[name] = subprocess.Popen(
                [program, *flags], stdout=log, stderr=log, env=self.environment, start_new_session=True
            )

    def revive(self, node: str) -> None:
        """Starts a node."""
        self._daemon("slurmd", "-D", "-N", node)

    def kill(self, node: str) -> None:
        """Kills a node: its daemon, its steps and their tasks, all at once."""
        daemon = self._daemons.pop(f"slurmd {node}")
        daemon.kill()
        daemon.wait()
        for process in _processes_of(node):
            os.kill(process, signal.SIGKILL)

    def ask(self, *words: str) -> str:
        """The output of a Slurm command."""
        return subprocess.run(words, capture_output=True, text=True, env=self.environment, timeout=60).stdout

    def show(self, job: str) -> dict[str, str]:
        """Slurm's record of a job."""
        return dict(re.findall(r"(\w+)=(\S*)", self.ask("scontrol", "show", "job", "-o", job)))

    def wait(self, job: str, state: str, seconds: float = 300) -> dict[str, str]:
        """Waits until the job is in a state; a requeued job waits seconds, not two minutes. Returns the record."""
        hurried = set()

        def arrived() -> bool:
            now = self.show(job)
            if now["JobState"] == "PENDING" and now["Reason"] == "BeginTime" and now["Restarts"] not in hurried:
                hurried.add(now["Restarts"])
                # Not at once: a node refuses a job that it ended in the same second.
                self.ask("scontrol", "update", f"jobid={job}", "StartTime=now+2seconds")
            return now["JobState"] == state

        self._until(arrived, seconds, f"job {job} to be {state}")
        return self.show(job)

    def wait_for_restart(self, job: str, restarts: int = 1, seconds: float = 300) -> None:
        """Waits until the job was requeued `restarts` times."""
        self._until(lambda: self.show(job).get("Restarts") == str(restarts), seconds, f"job {job} to be requeued")

    def _until(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                logs = "\n".join(log.read_text()[-1500:] for log in self.folder.glob("*.log"))
                raise AssertionError(f"waited {seconds} s for {what}\n{self.ask('squeue', '-a', '-l')}\n{logs}")
            time.sleep(0.1)

    def down(self) -> None:
        """Ends jobs and daemons and removes all files."""
        if self._daemons:
            self.ask("scancel", "--user=root", "--signal=KILL", "--full")
            self.ask("scancel", "--user=root")
        for name in sorted(self._daemons, reverse=True):  # slurmd, slurmctld, munged
            self._daemons[name].terminate()
            try:
                self._daemons[name].wait(20)
            except subprocess.TimeoutExpired:
                self._daemons[name].kill()
                self._daemons[name].wait()
        for node in self.nodes:
            for process in _processes_of(node):
                os.kill(process, signal.SIGKILL)
        with alone():
            lines = HOSTS.read_text().splitlines(keepends=True)
            HOSTS.write_text("".join(line for line in lines if f"# {self.folder}" not in line))
        shutil.rmtree(self.folder)


def _processes_of(node: str) -> list[int]:
    """The processes of a node's jobs, and Slurm's own above them."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"SLURMD_NODENAME={node}\0".encode() in (entry / "environ").read_bytes():
                parent = int(re.findall(r"^PPid:\s*(\d+)", (entry / "status").read_text(), re.MULTILINE)[0])
                found |= {int(entry.name)}
                found |= {parent} if (Path("/proc") / str(parent) / "comm").read_text() == "slurmstepd\n" else set()
        except OSError:  # it has exited
            continue
    return sorted(found - {os.getpid()})
