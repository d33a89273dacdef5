"""Trains on Kubernetes: renders a JobSet for TPU slices or GPU nodes, and the config in a ConfigMap.

    python launch/kubernetes.py --config=configs/text/gpt2.py --workdir=/runs/gpt2 --volume=runs --tpu=v5e:4x4 \\
        --image=REGISTRY/txjax:COMMIT

It prints the manifests; --submit hands them to kubectl. docs/launching.md has the details.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import common
from common import Launch, UserError, count, near

# GKE's node label of a kind of TPU; a node of a slice has four chips, a smaller slice is one node.
TPUS = {
    "v4": "tpu-v4-podslice",
    "v5e": "tpu-v5-lite-podslice",
    "v5p": "tpu-v5p-slice",
    "v6e": "tpu-v6e-slice",
}
CHIPS = 4
CONTAINER = "txjax"
JOB = "train"
PORT = 8476


def parser() -> common.Flags:
    flags = common.Flags(__doc__ or "")
    flags.add_argument("--image", required=True, help="built by launch/Dockerfile, with this checkout's commit as tag")
    flags.add_argument(
        "--volume", required=True, help="the PersistentVolumeClaim that all nodes can write, for --workdir"
    )
    flags.add_argument("--mount", default="/runs", help="where the volume is in the container; --workdir is inside")
    flags.add_argument("--name", help="of the JobSet; default: the workdir's last part")
    flags.add_argument("--namespace", default="default")
    flags.add_argument("--tpu", help="kind and topology of a slice: v5e:4x4")
    flags.add_argument("--slices", type=count, default=1)
    flags.add_argument("--gpu", help="the node label cloud.google.com/gke-accelerator: nvidia-h100-80gb")
    flags.add_argument("--gpus_per_node", type=count, default=8)
    flags.add_argument("--nodes", type=count, default=1, help="of GPUs")
    flags.add_argument("--spot", action="store_true")
    flags.add_argument("--max_restarts", type=int, default=10, help="after failures; preemptions don't count")
    flags.add_argument("--save_seconds", type=count, default=120, help="between SIGTERM and SIGKILL")
    flags.add_argument("--dry_run", action="store_true", help="print the manifests, as without --submit")
    flags.add_argument("--submit", action="store_true", help="kubectl create")
    return flags


def slice_of(tpu: str) -> tuple[str, str, int, int]:
    """GKE's label of the kind, the topology, nodes of a slice and chips of a node, from `v5e:4x4`."""
    kind, _, topology = tpu.partition(":")
    if kind not in TPUS:
        raise UserError(
            f"--tpu: expected one of {', '.join(TPUS)} and a topology such as v5e:4x4, got {tpu}" + near(kind, TPUS)
        )
    if not re.fullmatch(r"\d+x\d+(x\d+)?", topology):
        raise UserError(f"--tpu: expected a topology such as {kind}:4x4, got {tpu}")
    chips = math.prod(map(int, topology.split("x")))
    if chips > CHIPS and chips % CHIPS:
        raise UserError(f"--tpu: expected a topology of {CHIPS} chips a node, got {chips} chips in {tpu}")
    return TPUS[kind], topology, max(1, chips // CHIPS), min(chips, CHIPS)


def manifests(flags: argparse.Namespace, overrides: list[str], launch: Launch) -> list[dict[str, Any]]:
    """The ConfigMap with the config file, and the JobSet."""
    name = flags.name or PurePosixPath(flags.workdir).name
    longest = 63 - len(f"-{JOB}-{flags.slices - 1}-9999-abcde")  # of a pod's name
    if not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name) or len(name) > longest:
        raise UserError(f"--name: expected up to {longest} of a-z, 0-9 and - , beginning with a letter, got {name}")
    if PurePosixPath(flags.mount) not in PurePosixPath(flags.workdir).parents:
        raise UserError(f"--workdir: expected a folder inside --mount={flags.mount}, got {flags.workdir}")
    if bool(flags.tpu) == bool(flags.gpu):
        raise UserError("--tpu: expected one of --tpu and --gpu")
    metadata = {
        "name": name,
        "namespace": flags.namespace,
        "annotations": {"txjax/commit": launch.version},
    }
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {launch.source.name: common.utf8_text(launch.source)},
    }
    train = _without_references(launch.in_image(flags.workdir))
    volumes: list[dict[str, Any]] = [
        {"name": "config", "configMap": {"name": name}},
        {"name": "runs", "persistentVolumeClaim": {"claimName": flags.volume}},
    ]
    mounts = [{"name": "config", "mountPath": "/config"}, {"name": "runs", "mountPath": flags.mount}]
    if flags.tpu:
        label, topology, nodes, chips = slice_of(flags.tpu)
        selector = {"cloud.google.com/gke-tpu-accelerator": label, "cloud.google.com/gke-tpu-topology": topology}
        device = {"google.com/tpu": chips}
        # Each slice has its own node pool. GKE passes the addresses of all processes, also across slices.
        annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    else:
        nodes, annotations = flags.nodes, {}
        selector = {"cloud.google.com/gke-accelerator": flags.gpu}
        device = {"nvidia.com/gpu": flags.gpus_per_node}
        volumes += [{"name": "shm", "emptyDir": {"medium": "Memory"}}]  # NCCL's
        mounts += [{"name": "shm", "mountPath": "/dev/shm"}]
        if nodes > 1:
            train += [f"--coordinator_address={name}-{JOB}-0-0.{name}:{PORT}", f"--process_count={nodes}"]
            train += ["--process_index=$(JOB_COMPLETION_INDEX)"]
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": flags.save_seconds,
        "nodeSelector": selector | ({"cloud.google.com/gke-spot": "true"} if flags.spot else {}),
        "containers": [
            {
                "name": CONTAINER,
                "image": flags.image,
                "command": [*train, *_without_references(overrides)],
                "resources": {"limits": device},
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }
    if flags.spot:
        pod["tolerations"] = [
            {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
        ]
    job = {
        "parallelism": nodes,
        "completions": nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,  # a failed pod ends all pods
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [common.PREEMPTED]},
                },
                {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": {"spec": pod},
    }
    # By the rules above only preemptions have the reason PodFailurePolicy: they restart without limit.
    again = {
        "name": "preempted",
        "action": "RestartJobSetAndIgnoreMaxRestarts",
        "onJobFailureReasons": ["PodFailurePolicy"],
    }
    jobs = [{"name": JOB, "replicas": flags.slices if flags.tpu else 1, "template": {"spec": job}}]
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata | {"annotations": metadata["annotations"] | annotations},
        "spec": {"failurePolicy": {"maxRestarts": flags.max_restarts, "rules": [again]}, "replicatedJobs": jobs},
    }
    return [config, jobset]


def _without_references(words: Iterable[str]) -> list[str]:
    """The words of a command in which Kubernetes sees no $(VARIABLE)."""
    return [word.replace("$(", "$$(") for word in words]


def yaml(value: Any, indent: str = "") -> str:
    """A manifest as YAML: ambiguous strings are quoted, multi-line strings are blocks."""
    if isinstance(value, dict) and value:
        return "".join(f"{indent}{_plain(key)}:{_inside(child, indent)}" for key, child in value.items())
    if isinstance(value, list) and value:
        items = (yaml(child, indent + "  ") for child in value)
        return "".join(f"{indent}- {item[len(indent) + 2 :]}" for item in items)
    return f"{indent}{_plain(value)}\n"


def _inside(value: Any, indent: str) -> str:
    if isinstance(value, str) and _is_block(value):
        return " |\n" + "".join(f"{indent}  {line}\n" if line else "\n" for line in value[:-1].split("\n"))
    if isinstance(value, (dict, list)) and value:
        return "\n" + yaml(value, indent + "  ")
    return f" {_plain(value)}\n"


def _is_block(text: str) -> bool:
    """Whether a text can be a literal block: whole lines of printable characters."""
    inside = text.strip("\n")
    if not inside or inside + "\n" != text or text[0] == " ":
        return False
    return re.sub(r"[\n\t]", "", text).isprintable()


def _plain(value: Any) -> str:
    """A scalar. A string is plain only where no version of YAML reads another type (yaml.org/type), else quoted."""
    is_word = isinstance(value, str) and re.fullmatch(r"[A-Za-z/][\w./=-]*\w", value, re.ASCII)
    if is_word and value.lower() not in ("true", "false", "yes", "no", "on", "off", "null"):
        return value
    # JSON is YAML, but for characters that end lines or are not allowed in it.
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\xa0\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def main(argv: list[str]) -> None:
    flags, overrides = parser().read(argv)
    launch = common.prepare(None, flags.config)
    text = "---\n".join(yaml(manifest) for manifest in manifests(flags, overrides, launch))
    if not flags.submit or flags.dry_run:
        print(f"# Made by launch/kubernetes.py at {launch.version}.\n{text}", end="")
        return
    if launch.changed:
        raise UserError(f"--submit: expected a commit, as in {flags.image}; changed: {', '.join(launch.changed)}")
    kubectl = common.need("kubectl", "a machine that can reach the cluster")
    common.check_config(sys.executable, flags.config, [[f"--workdir={flags.workdir}", *overrides]])
    done = subprocess.run([kubectl, "create", "-f", "-"], input=text, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise UserError(f"kubectl: {' '.join(done.stderr.split())}")
    print(done.stdout, end="")


if __name__ == "__main__":
    common.run(main)
