"""The GPU operator that a stack with `gpu_operator: {existing: true}` finds in its cluster.

Made from the stand-in for NVIDIA's chart, as `helm install` with the chart's own strategy `single`.
So the first `up` refuses it and prints the command that changes it, which its owner then runs.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from typing import Final

from slicewright.apis.names import CLUSTER_POLICY_API, CLUSTER_POLICY_PLURAL, MIG_STATE_LABEL
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.kubeapi import Client, JsonObject
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.cluster.gpu_operator.labels import MIG_CAPABLE
from slicewright.rehearsal.plugins.charts import gpu_operator
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import RehearsalError
from slicewright.rehearsal.scenario.existing_cluster.objects import Owner

CLUSTER_POLICY: Final = "cluster-policy"
"""The chart's name for it, whatever the release is called."""
_RELEASE: Final = "theirs"
_DEPLOYMENT: Final = "gpu-operator"
_VALUES: Final = {
    "mig": {"strategy": "single"},
    # The nodes have both in their image.
    "driver": {"enabled": False},
    "toolkit": {"enabled": False},
    # The simulated A100 refuses a reset, as those of clouds do.
    "migManager": {"env": [{"name": "WITH_REBOOT", "value": "true"}]},
}
_TIMEOUT_S: Final = 240.0
_AGAIN_S: Final = 0.5
_COUNT: Final = "nvidia.com/gpu.count"
_COMMAND: Final = "kubectl patch clusterpolicies.nvidia.com "


def install(client: Client, fleet: ExistingFleetPlan) -> None:
    """Returns when the operator is done with the nodes of all pools, none of which it partitions.

    Raises ApiError, Unreachable, and RehearsalError after four minutes.
    """
    owner = Owner(client=client, manager="operator-owner", timeout_s=_TIMEOUT_S)
    namespace = fleet.operator.namespace
    owner.apply_crds(gpu_operator.crds())
    owner.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
            },
        }
    )
    for made in gpu_operator.render(_VALUES, _RELEASE, namespace):
        owner.apply(made)
    _wait_until_at_work(client, sum(pool.nodes.min for pool in fleet.pools))


def command_in(output: str) -> str | None:
    """The command that `up` prints where the operator would not serve the pools."""
    lines = (line.strip() for line in output.splitlines())
    return next((line for line in lines if line.startswith(_COMMAND)), None)


def run(environment: Environment, command: str) -> None:
    """Runs a `kubectl` command of a message as the operator's owner. Raises RehearsalError."""
    # kubectl would else cache what the API server serves in the home directory.
    cache = {"KUBECACHEDIR": str(environment.root / "kubectl-cache")}
    _, *arguments = shlex.split(command)
    done = subprocess.run(
        [environment.root / "bin" / "kubectl", *arguments],
        env={**os.environ, **environment.variables(), **cache},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RehearsalError(f"{command}: exit code {done.returncode}: {done.stderr.strip()}")


def namespace_in(before: Mapping[str, JsonObject]) -> str | None:
    """Of the operator of which a record of the cluster tells; None where it had none."""
    names = (key.split("/") for key in before if key.startswith("deployments.apps/"))
    return next((namespace for _, namespace, name in names if name == _DEPLOYMENT), None)


def set_back(client: Client, before: Mapping[str, JsonObject]) -> None:
    """Gives the ClusterPolicy the settings that a record of the cluster has. Raises ApiError and
    Unreachable.
    """
    path = path_of(CLUSTER_POLICY_API, CLUSTER_POLICY_PLURAL, CLUSTER_POLICY)
    recorded = before[f"{CLUSTER_POLICY_PLURAL}.nvidia.com/{CLUSTER_POLICY}"]
    # Not the whole object: the operator writes its status into it at any time.
    change = {"op": "replace", "path": "/spec", "value": recorded["spec"]}
    client.patch(path, [change], kind="json")


def _wait_until_at_work(client: Client, gpu_nodes: int) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        labels = [node["metadata"]["labels"] for node in client.get("/api/v1/nodes")["items"]]
        done = [one for one in labels if _is_done(one)]
        if len(done) == gpu_nodes:
            return
        if time.monotonic() > deadline:
            raise RehearsalError(
                f"existing cluster: after {_TIMEOUT_S:.0f} s its GPU operator is done with "
                f"{len(done)} of {gpu_nodes} GPU nodes"
            )
        time.sleep(_AGAIN_S)


def _is_done(labels: Mapping[str, str]) -> bool:
    partitioned = labels.get(MIG_CAPABLE) != "true" or labels.get(MIG_STATE_LABEL) == "success"
    return _COUNT in labels and partitioned
