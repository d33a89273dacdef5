"""The launchers without a cluster: what they render, copy and refuse. test_slurm.py runs a real Slurm."""

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "text" / "gpt_tiny.py"
KUBERNETES = ["--volume=runs", "--image=registry/txjax:abc"]
TPU = [
    "--name=gpt",
    "--zone=us-east5-b",
    "--tpu=v6e-16",
    "--runtime_version=v2-alpha-tpuv6e",
    "--image=registry/txjax:abc",
]


def launch(name: str, *flags: str, root: Path = ROOT, **environment: str) -> subprocess.CompletedProcess:
    words = [sys.executable, root / "launch" / name, *flags]
    return subprocess.run(words, capture_output=True, text=True, env=os.environ | environment)


def rendered(name: str, *flags: str, **environment: str) -> str:
    done = launch(name, *flags, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def program(folder: Path, name: str, text: str) -> Path:
    """A stand-in for a program, in a folder for the PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A checkout with a changed file and an untracked one."""
    clone = tmp_path / "a checkout"
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, clone], check=True)
    for file in (ROOT / "launch").glob("*.py"):
        shutil.copy(file, clone / "launch" / file.name)
    with (clone / "README.md").open("a") as readme:
        readme.write("changed\n")
    (clone / "unknown.py").write_text("")
    return clone


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("path", sorted((ROOT / "launch").glob("*.py")), ids=lambda p: p.name)
def test_a_launcher_needs_nothing_but_python(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names | {"common"}
    assert len(path.read_text().splitlines()) <= 300


def test_a_dry_run_prints_the_script_and_leaves_nothing(tmp_path):
    flags = ["--nodes=2", "--gpus_per_node=8", "--cpus_per_task=16", "--time=24:00:00", "--partition=gpu", "--mem=0"]
    more = ["--setup=module load cuda", "--sbatch=--constraint=h100", "--config.model.width='a b'"]
    script = rendered("slurm.py", f"--config={CONFIG}:small", f"--workdir={tmp_path}/run", *flags, *more, "--dry_run")
    assert not list(tmp_path.iterdir())
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    lines = script.splitlines()
    for option in (
        "nodes=2",
        "gpus-per-node=8",
        "ntasks-per-node=1",
        "time=24:00:00",
        "requeue",
        "constraint=h100",
        "mem=0",
    ):
        assert f"#SBATCH --{option}" in lines
    assert "module load cuda" in lines
    assert "/gpt_tiny.py:small" in script and "--cpus-per-task=16 --label bash" in script


@pytest.mark.parametrize(
    ("name", "flags", "words"),
    [
        ("slurm.py", ["--partion=gpu"], ["--partion", "did you mean --partition"]),
        ("slurm.py", ["--config=configs/text/gpt_tin.py"], ["gpt_tin.py", "gpt_tiny.py"]),
        ("slurm.py", ["--config.model.width"], ["--config.model.width=VALUE"]),
        ("slurm.py", ["--nodes=0"], ["--nodes", "at least 1"]),
        ("slurm.py", ["--workdir=README.md/run"], ["--workdir", "writable", "README.md"]),
        ("slurm.py", ["--gpus_per_node=8", "--tasks_per_node=3"], ["--gpus_per_node", "multiple", "3"]),
        ("slurm.py", ["--sweep=nowhere.txt"], ["--sweep", "nowhere.txt"]),
        ("kubernetes.py", KUBERNETES, ["--tpu", "--gpu"]),
        ("kubernetes.py", [*KUBERNETES, "--tpu=v5x:4x4"], ["v5x", "did you mean"]),
        ("kubernetes.py", [*KUBERNETES, "--tpu=v5e"], ["topology", "v5e:4x4"]),
        ("kubernetes.py", [*KUBERNETES, "--gpu=a", "--workdir=/elsewhere/run"], ["--workdir", "--mount=/runs"]),
        ("kubernetes.py", [*KUBERNETES, "--gpu=a", "--name=A_b"], ["--name", "A_b"]),
        ("tpu.py", [*TPU, "--name=A_b"], ["--name", "A_b"]),
        ("tpu.py", [*TPU, "--workdir=run"], ["--workdir", "run"]),
        ("tpu.py", TPU[1:], ["--name"]),
    ],
)
def test_a_mistake_is_one_line(name, flags, words):
    done = launch(name, f"--config={CONFIG}", "--workdir=/runs/gpt", *flags)
    assert (done.returncode, done.stdout) == (2, "") and len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith(f"{name}: ") and all(word in done.stderr for word in words), done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--config.seed=1\n--confg.seed=2\n", ["line 2", "--confg.seed=2"]),
        ("# none\n", ["a run"]),
        ("--workdir=a\n--workdir=a\n", ["folders of their own"]),
        ("--workdir='a\nb'\n", ["line 1", "No closing quotation"]),
        ("--config.name='points.txt \x1b[2J'\n", ["without control characters", r"\x1b[2J"]),
    ],
)
def test_a_mistake_in_a_sweep_is_one_line(tmp_path, text, words):
    (tmp_path / "points.txt").write_text(text)
    done = launch("slurm.py", f"--config={CONFIG}", f"--workdir={tmp_path}/run", f"--sweep={tmp_path}/points.txt")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "points.txt" in done.stderr and all(word in done.stderr for word in words), done.stderr


@pytest.mark.parametrize("name", ["slurm.py", "kubernetes.py", "tpu.py"])
@pytest.mark.parametrize(
    "word",
    ["--workdir=/runs/a\n#SBATCH --wrap=x\ntouch it_ran\n#", "--config.seed=1\ntouch it_ran", "--name=a\rb",
     "--setup=true\ntouch it_ran", "--image=a\x1b[2J", "--tpu=v6e-16\u2028touch", "--workdir=/runs/\u202eb"],
)  # fmt: skip
def test_control_characters_are_refused(name, word):
    """A line break in a comment of the script would begin a line that the shell runs."""
    if name == "slurm.py" and word.startswith(("--image", "--tpu")) or name == "kubernetes.py" and "setup" in word:
        pytest.skip("another launcher's flag")
    flags = {"slurm.py": [], "kubernetes.py": [*KUBERNETES, "--gpu=a"], "tpu.py": TPU}[name]
    done = launch(name, f"--config={CONFIG}", "--workdir=/runs/gpt", *flags, word, "--dry_run")
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    assert "without control characters" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_control_characters_of_the_current_folder_are_refused(tmp_path):
    """A relative --workdir is resolved against it."""
    folder = tmp_path / "a\ntouch it_ran"
    folder.mkdir()
    words = [sys.executable, ROOT / "launch" / "slurm.py", f"--config={CONFIG}", "--workdir=run", "--dry_run"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "") and "without control characters" in done.stderr


def test_without_slurm_nothing_is_written(tmp_path):
    path = program(tmp_path / "bin", "git", f'#!/bin/sh\nexec {shutil.which("git")} "$@"\n')
    done = launch("slurm.py", f"--config={CONFIG}", f"--workdir={tmp_path}/run", PATH=str(path))
    assert done.returncode == 2 and done.stderr.startswith("slurm.py: sbatch: expected on the PATH"), done.stderr
    assert not (tmp_path / "run").exists()


def test_an_invalid_config_is_refused_before_submission(tmp_path):
    path = program(tmp_path / "bin", "sbatch", f"#!/bin/sh\ntouch {tmp_path}/submitted\n")
    (tmp_path / "points.txt").write_text("--config.seed=1\n--config.seed=2\n--config.model.widht=8\n")
    flags = [f"--config={CONFIG}", f"--workdir={tmp_path}/run", f"--sweep={tmp_path}/points.txt"]
    done = launch("slurm.py", *flags, PATH=f"{path}:{os.environ['PATH']}")
    assert done.returncode == 2 and done.stderr.startswith("slurm.py: config.model.widht"), done.stderr
    assert "did you mean width" in done.stderr and len(done.stderr.splitlines()) == 1
    done = launch("slurm.py", *flags[:2], "--config.num_steps=-5", PATH=f"{path}:{os.environ['PATH']}")
    assert done.returncode == 2 and "config.num_steps: expected at least 1" in done.stderr, done.stderr
    assert not (tmp_path / "run").exists() and not (tmp_path / "submitted").exists()
    flags = [*flags[:2], "--python=/nowhere/python"]
    done = launch("slurm.py", *flags, PATH=f"{path}:{os.environ['PATH']}")
    assert done.returncode == 0 and "was not validated" in done.stderr and (tmp_path / "submitted").exists()


def test_a_launch_keeps_the_code_as_it_is_and_the_config(checkout, tmp_path):
    """Tracked files with their changes, at their commit; the checkout itself isn't touched."""
    path = program(tmp_path / "bin", "sbatch", "#!/bin/sh\necho '17;cluster'\n")
    before = git(checkout, "status", "--porcelain"), git(checkout, "stash", "list")
    flags = [f"--config={CONFIG}", f"--workdir={tmp_path}/run", "--config.seed=3"]
    done = launch("slurm.py", *flags, root=checkout, PATH=f"{path}:{os.environ['PATH']}")
    assert done.returncode == 0 and done.stdout.startswith("job 17: "), done.stderr
    assert "unknown.py" in done.stderr
    assert (git(checkout, "status", "--porcelain"), git(checkout, "stash", "list")) == before
    (folder,) = (tmp_path / "run" / "launch").iterdir()
    assert {p.name for p in folder.iterdir()} == {"code", "gpt_tiny.py", "job.sh", "launch.json"}
    assert (folder / "gpt_tiny.py").read_text() == CONFIG.read_text()
    tracked = [name for name in git(checkout, "ls-files", "-z").split("\0") if name]
    assert all((folder / "code" / name).read_bytes() == (checkout / name).read_bytes() for name in tracked)
    assert not (folder / "code" / "unknown.py").exists()
    notes = json.loads((folder / "launch.json").read_text())
    assert notes["commit"] == git(checkout, "rev-parse", "HEAD") and notes["job"] == "17"
    assert "README.md" in notes["changed"] and notes["overrides"] == ["--config.seed=3"]
    (path,) = [line for line in (folder / "job.sh").read_text().splitlines() if line.startswith("export PYTHONPATH")]
    ask = f"{path}; {shlex.quote(sys.executable)} -P -c 'import txjax; print(txjax.__file__)'"
    used = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, cwd=checkout).stdout
    assert used.strip() == str(folder / "code" / "txjax" / "__init__.py")  # not the checkout's, not an installed one
    assert json.loads((folder / "code" / "txjax" / "commit.json").read_text()) == {
        "commit": notes["commit"],
        "dirty": True,
    }


@pytest.mark.parametrize(
    ("devices", "pods", "limit"),
    [
        (["--tpu=v5e:4x4", "--slices=2", "--spot"], 4, {"google.com/tpu": 4}),
        (["--tpu=v6e:1x1"], 1, {"google.com/tpu": 1}),
        (["--tpu=v5p:4x4x4"], 16, {"google.com/tpu": 4}),
        (["--gpu=nvidia-h100-80gb", "--nodes=3"], 3, {"nvidia.com/gpu": 8}),
    ],
    ids=lambda v: v[0] if isinstance(v, list) else "",
)
def test_the_jobset_is_one_by_the_published_models(devices, pods, limit):
    """Kubeflow's models, made from the OpenAPI schemas of JobSet and Kubernetes, read it and lose nothing."""
    yaml = pytest.importorskip("yaml")
    models = pytest.importorskip("kubeflow_trainer_api.models")
    flags = [f"--config={CONFIG}:small", "--workdir=/runs/gpt", *KUBERNETES, *devices, "--config.model.width=$(64)"]
    config, jobset = yaml.safe_load_all(rendered("kubernetes.py", *flags))
    assert (config["apiVersion"], config["kind"], config["metadata"]["name"]) == ("v1", "ConfigMap", "gpt")
    assert config["data"] == {"gpt_tiny.py": CONFIG.read_text()}
    assert models.JobsetV1alpha2JobSet.from_dict(jobset).to_dict() == jobset
    job = jobset["spec"]["replicatedJobs"][0]
    assert job["replicas"] == (2 if "--slices=2" in devices else 1)
    assert job["template"]["spec"]["parallelism"] == job["template"]["spec"]["completions"] == pods
    pod = job["template"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"] == limit
    words = pod["containers"][0]["command"]
    assert words[:5] == ["python", "-m", "txjax", "train", "--config=/config/gpt_tiny.py:small"]
    assert words[-1] == "--config.model.width=$$(64)"
    assert ("--coordinator_address=gpt-train-0-0.gpt:8476" in words) == ("--nodes=3" in devices)


@pytest.mark.parametrize(
    "value",
    [
        "-1",
        "1e3",
        "0x10",
        "1_000",
        "12:30:45",
        "2020-01-01",
        ".inf",
        "~",
        "null",
        "Yes",
        "-",
        "a: b",
        "a #b",
        "*a",
        "é😀",
    ],
)
def test_a_value_that_yaml_reads_as_another_type_is_a_string(value):
    yaml = pytest.importorskip("yaml")
    flags = [f"--config={CONFIG}", "--workdir=/runs/gpt", "--gpu=h100", f"--image={value}", f"--volume={value}"]
    _, jobset = yaml.safe_load_all(rendered("kubernetes.py", *flags, "--config.seed=-1", f"--namespace={value}"))
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert jobset["metadata"]["namespace"] == pod["containers"][0]["image"] == value
    assert pod["volumes"][1]["persistentVolumeClaim"]["claimName"] == value
    assert pod["containers"][0]["command"][-1] == "--config.seed=-1"


@pytest.mark.parametrize(
    "text",
    ["x = '\u2028'\n", "x = '\x85'\n", "\tx = 1\n", "# é\n\n\nx = 1\n", "x = 1", "\n", "x\r\ny\n"],
)
def test_a_config_file_is_in_the_manifest_as_it_is(tmp_path, text):
    yaml = pytest.importorskip("yaml")
    (tmp_path / "small.py").write_bytes(text.encode())
    flags = [f"--config={tmp_path / 'small.py'}", "--workdir=/runs/gpt", *KUBERNETES, "--gpu=h100"]
    config, _ = yaml.safe_load_all(rendered("kubernetes.py", *flags, PYTHONUTF8="0", LC_ALL="C"))
    assert config["data"] == {"small.py": text}


def test_a_config_file_of_another_encoding_is_one_line(tmp_path):
    (tmp_path / "small.py").write_bytes(b"# caf\xe9\n")
    flags = [f"--config={tmp_path / 'small.py'}", "--workdir=/runs/gpt", *KUBERNETES, "--gpu=h100"]
    done = launch("kubernetes.py", *flags)
    message = f"{tmp_path / 'small.py'}: expected text in UTF-8, got the byte 0xe9 at offset 5; iconv converts it"
    assert (done.returncode, done.stderr) == (2, f"kubernetes.py: {message}\n")


# What gcloud documents: https://cloud.google.com/sdk/gcloud/reference/compute/tpus/queued-resources/create, beside it
# /describe, /delete, /scp and /ssh; `--project`, `--format` and `--quiet` are known to every command.
GCLOUD = {
    "create": {"accelerator-type", "runtime-version", "node-id", "node-count", "node-prefix", "spot"},
    "describe": {"format"},
    "delete": {"force", "quiet"},
    "scp": {"node", "worker"},
    "ssh": {"node", "worker", "command"},
}
STAND_IN = r"""#!/bin/bash
# gcloud: the TPU is there at the second look; the first run is preempted, the second loses the TPU, the third ends.
printf '%s\0' "$@" >> "$STATE/calls"; printf '\n' >> "$STATE/calls"
runs=$(cat "$STATE/runs" 2>/dev/null || echo 0)
case "$4 $*" in
    create*) rm -f "$STATE/looked" ;;
    describe*)
        if [ -e "$STATE/gone" ]; then echo SUSPENDED; rm "$STATE/gone"
        elif [ -e "$STATE/looked" ]; then echo ACTIVE
        else touch "$STATE/looked"; echo PROVISIONING; fi ;;
    ssh*'cat txjax-gpt/code'*)
        case $runs in 1) echo 75 ;; 2) touch "$STATE/gone"; exit 255 ;; *) echo "$CODE" ;; esac ;;
    ssh*docker*) echo $((runs + 1)) > "$STATE/runs"; exit 1 ;;
esac
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 2])
@pytest.mark.parametrize("slices", [1, 2])
def test_tpus_are_asked_for_again_after_a_preemption(tmp_path, code, slices):
    """The script runs against a stand-in for gcloud, and uses no flag that gcloud doesn't document."""
    path = program(tmp_path / "bin", "gcloud", STAND_IN)
    flags = [f"--config={CONFIG}", "--workdir=/runs/gpt", *TPU, "--spot", f"--slices={slices}", "--submit"]
    environment = {
        "PATH": f"{path}:{os.environ['PATH']}",
        "STATE": str(tmp_path),
        "CODE": str(code),
        "POLL_SECONDS": "0",
    }
    done = launch("tpu.py", *flags, "--setup=mount 'it'", "--config.data.name=a b", **environment)
    if "expected a commit" in done.stderr:  # this checkout has changes: run what would have been run
        script = rendered("tpu.py", *flags, "--dry_run", "--setup=mount 'it'", "--config.data.name=a b")
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == code, done.stderr
    calls = [line.split("\0") for line in (tmp_path / "calls").read_text().split("\0\n")[:-1]]
    verbs = [call[3] for call in calls]
    assert verbs.count("create") == verbs.count("delete") == verbs.count("scp") == 3
    for words in calls:
        assert words[:3] == ["compute", "tpus", "queued-resources"]
        used = {word[2:].split("=")[0] for word in words if word.startswith("--")}
        assert used <= GCLOUD[words[3]] | {"zone", "project"}, words
    create = next(call for call in calls if call[3] == "create")
    assert ("--node-id=gpt" in create) == (slices == 1) and ("--node-count=2" in create) == (slices == 2)
    shell = next(word for call in calls for word in call if "docker" in word).removeprefix("--command=")
    subprocess.run(["bash", "-n"], input=shell, text=True, check=True)
    assert "mount 'it'" in shell and "'--config.data.name=a b'" in shell


def test_skypilot_starts_one_command_on_every_node(tmp_path):
    """The task's scripts, run by a shell with the variables that SkyPilot sets."""
    yaml = pytest.importorskip("yaml")
    task = yaml.safe_load((ROOT / "launch" / "skypilot.yaml").read_text())
    subprocess.run(["bash", "-n"], input=task["setup"], text=True, check=True)
    (tmp_path / "venv").mkdir()
    program(tmp_path / "venv" / "bin", "python", '#!/bin/sh\nprintf "%s|" "$@"\nexit 75\n')
    variables = {"HOME": str(tmp_path), "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2", "SKYPILOT_NODE_RANK": "1"}
    texts = {name: value or "" for name, value in task["envs"].items()} | {
        "FLAGS": "--config.seed=1 --config.num_steps=2"
    }
    for nodes in (1, 2):
        environment = os.environ | variables | texts | {"SKYPILOT_NUM_NODES": str(nodes)}
        done = subprocess.run(["bash", "-c", task["run"]], capture_output=True, text=True, env=environment)
        assert done.returncode == 75 and done.returncode in task["resources"]["job_recovery"]["recover_on_exit_codes"]
        several = "--coordinator_address=10.0.0.1:8476|--process_count=2|--process_index=1|" if nodes == 2 else ""
        assert done.stdout == (
            f"-P|-m|txjax|train|--config=configs/text/gpt2.py|--workdir=/runs/gpt2|{several}"
            "--config.seed=1|--config.num_steps=2|"
        )


def test_skypilot_takes_the_task():
    """Where SkyPilot is installed (pip install skypilot==0.14.1, in an environment of its own)."""
    sky = pytest.importorskip("sky")
    yaml = pytest.importorskip("yaml")
    text = yaml.safe_load((ROOT / "launch" / "skypilot.yaml").read_text())
    task = sky.Task.from_yaml_config(text, env_overrides=[("BUCKET", "a-bucket")])
    assert task.num_nodes == 1 and task.storage_mounts["/runs"].name == "a-bucket"
    (resources,) = task.resources
    assert resources.use_spot and resources.job_recovery["recover_on_exit_codes"] == [75]


def test_the_image_is_made_of_instructions_that_docker_has():
    """No Docker here: names of instructions, continued lines and the shell of every RUN."""
    text = (ROOT / "launch" / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    words = [line.split(" ", 1) for line in lines]
    assert words[0][0] == "FROM"
    assert {word for word, _ in words} <= {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "CMD", "ENTRYPOINT"}
    for word, rest in words:
        if word == "RUN":
            subprocess.run(["sh", "-n"], input=rest, text=True, check=True)
        if word in ("CMD", "ENTRYPOINT"):
            assert isinstance(json.loads(rest), list)
