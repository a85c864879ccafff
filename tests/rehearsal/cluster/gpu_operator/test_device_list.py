"""A tenant's pods on a node whose container toolkit the operator installs, with and without
`gpu_operator.device_list: volume-mounts`, and what an agent sees there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pytest
import yaml

from slicewright.infra import delivery, manifests, plan, stack_file
from slicewright.kubeapi import ApiError
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.recorder import recorded
from tests.rehearsal.cluster.gpu_operator.conftest import (
    LAYOUTS,
    NAMESPACE,
    VALUES,
    install_operator,
)
from tests.rehearsal.cluster.gpu_operator.test_tenants_pod import (
    ALL,
    ATTACKS,
    COUNTS,
    NOTHING,
    OVERRIDES,
    PARTITION,
    REQUEST,
    allocatable,
)
from tests.rehearsal.cluster.kubelet.simulated_cluster import running_cluster

NODE = "shared"
MACHINE = {"cloud": "byo", "gpu_model": "H100-80", "gpu_count": 2, "driver_version": "580.159.03"}
FLEET = """\
cloud: byo
cluster: {name: lab, context: lab}
node_pools:
- name: h100
  gpu: {model: H100-80, count: 2}
  nodes: {count: 1}
  partition: {mode: operator, layout: {3g.40gb: 2}}
"""
SETTINGS: dict[str, dict[str, Any]] = {
    "variable": {},
    "mounts with CDI": {"device_list": "volume-mounts"},
    "mounts without CDI": {"device_list": "volume-mounts", "cdi": False},
}
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
EVERYTHING = {"2 GPUs, 8 capabilities", "2 GPUs, 10 capabilities"}
"""By CDI, NVIDIA's runtime adds those of configuration and monitoring."""


def planned(setting: str) -> plan.FleetPlan:
    operator = {"toolkit": {"enabled": True}, **SETTINGS[setting]}
    raw = {**yaml.safe_load(FLEET), "gpu_operator": operator}
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def chosen(setting: str) -> dict[str, Any]:
    """The values of the product that decide how containers get GPUs, each with its default."""
    fleet = planned(setting)
    made = manifests.operator_values(fleet, manifests.operator_files(fleet))
    return {
        "cdi": made["cdi"],
        "toolkit": {"enabled": made["toolkit"]["enabled"], "env": made["toolkit"].get("env", [])},
        "devicePlugin": {"env": made["devicePlugin"].get("env", [])},
    }


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Any]:
    with running_cluster(tmp_path_factory.mktemp("mounts"), toolchain) as made:
        made.add_node("system")
        install_operator(made, {**VALUES, **chosen("variable")}, LAYOUTS)
        labels = {"nvidia.com/mig.config": "all-3g.40gb"}
        path = made.add_node(NODE, MACHINE, labels)
        made.until(path, lambda node: allocatable(node) == "4", 240)
        settings = {"name": "settings", "namespace": "default"}
        data = {ALL["name"]: ALL["value"]}
        made.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": settings, "data": data})
        (pool,) = planned("variable").pools
        made.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "agent", "namespace": "default"},
                "data": {"desired.json": pool.offer.desired},
                "binaryData": {"agent.pyz": delivery.node_agent().base64},
            }
        )
        tenant = {"name": "tenant", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}
        made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": tenant})
        yield made


@pytest.fixture(scope="module", params=SETTINGS)
def setting(lab: Any, request: pytest.FixtureRequest) -> str:
    """The operator has it on the node: its toolkit has configured the runtime, and its plugin
    offers the partitions.
    """
    name = str(request.param)
    changes = chosen(name)
    lab.client.patch(POLICY, {"spec": changes})
    files = NodeFiles(lab.directory / "nodes" / NODE)
    by_mounts = name != "variable"

    def configured(node: dict[str, Any] | None) -> bool:
        runtime = files.containerd
        return (
            allocatable(node) == "4"
            and bool(runtime.runtimes)
            and (runtime.mounts_count, runtime.variable_counts) == (by_mounts, not by_mounts)
            and runtime.management is changes["cdi"]["enabled"]
            and strategy(lab) == STRATEGIES[name]
        )

    lab.until(f"/api/v1/nodes/{NODE}", configured, 240)
    return name


VERIFY = """
import subprocess, sys, time
argv = [sys.executable, "-S", "/agent/agent.pyz", "verify", "--desired", "/agent/desired.json"]
seen = subprocess.run([*argv, "--silicon-only"], capture_output=True, text=True)
print(seen.stdout, seen.stderr, "exit", seen.returncode, flush=True)
time.sleep(10000)
"""
STRATEGIES = {
    "variable": "cdi-annotations,cdi-cri",
    "mounts with CDI": "cdi-annotations,cdi-cri",
    "mounts without CDI": "volume-mounts",
}


def strategy(cluster: Any) -> str | None:
    """The setting of the one device plugin that is ready on the node."""
    pods = cluster.client.get(
        f"/api/v1/namespaces/{NAMESPACE}/pods",
        labelSelector="app=nvidia-device-plugin-daemonset",
        fieldSelector=f"spec.nodeName={NODE}",
    )["items"]
    if len(pods) != 1 or "deletionTimestamp" in pods[0]["metadata"]:
        return None
    statuses = pods[0]["status"].get("containerStatuses") or ()
    if not statuses or not all(status["ready"] for status in statuses):
        return None
    env = {one["name"]: one.get("value") for one in pods[0]["spec"]["containers"][0]["env"]}
    return env["DEVICE_LIST_STRATEGY"]


def sees(
    cluster: Any,
    name: str,
    container: Mapping[str, Any],
    wanted: Collection[str],
    **pod: Any,
) -> None:
    assert logged(cluster, name, COUNTS, container, "capabilities", **pod) in wanted


def logged(
    cluster: Any,
    name: str,
    script: str,
    container: Mapping[str, Any],
    marker: str,
    **pod: Any,
) -> str:
    """The log of a pod on the node, as soon as the marker is in it."""
    mounts = [{"name": "code", "mountPath": "/code"}, *container.get("volumeMounts", ())]
    path = cluster.run_python(
        name,
        script,
        container={**container, "volumeMounts": mounts},
        **{
            "nodeSelector": {"kubernetes.io/hostname": NODE},
            "runtimeClassName": "nvidia",
            **pod,
        },
    )
    log = str(cluster.says(path, lambda text: marker in text))
    cluster.client.delete(path)
    return log.strip()


def agent(setting: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What decides the devices of the product's agent: of its container, and of its pod."""
    made = recorded(planned(setting), "lab")
    (found,) = (m for m in made if m.type.endswith(":DaemonSet") and "node-agent" in m.name)
    # The engine has numbers of one kind.
    text = json.dumps(found.inputs["spec"]["template"]["spec"])
    pod = json.loads(text, parse_float=lambda number: int(float(number)))
    (container,) = pod["containers"]
    volumes = [volume for volume in pod["volumes"] if "hostPath" in volume]
    kept = {volume["name"] for volume in volumes}
    mounts = [mount for mount in container["volumeMounts"] if mount["name"] in kept]
    return (
        {
            "env": [one for one in container["env"] if "value" in one],
            "securityContext": container["securityContext"],
            "volumeMounts": mounts,
        },
        {"volumes": volumes, "securityContext": pod["securityContext"]}
        | {"runtimeClassName": pod["runtimeClassName"]},
    )


def verdict(cluster: Any, name: str, container: dict[str, Any], pod: dict[str, Any]) -> str:
    """What the product's agent says of the node's GPUs in such a container."""
    mounts = [*container["volumeMounts"], {"name": "agent", "mountPath": "/agent"}]
    volumes = [*pod["volumes"], {"name": "agent", "configMap": {"name": "agent"}}]
    with_agent = {**container, "volumeMounts": mounts}
    return logged(cluster, name, VERIFY, with_agent, "exit", **{**pod, "volumes": volumes})


def slug(setting: str, name: str) -> str:
    return f"{name}-{setting.lower().replace(' ', '-')}"


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_variable_brings_all_partitions_without_the_key_and_none_with_it(
    lab: Any, setting: str, attack: str
) -> None:
    container, _ = ATTACKS[attack]
    wanted = EVERYTHING if setting == "variable" else {NOTHING}
    sees(lab, slug(setting, attack), container, wanted)


@pytest.mark.parametrize("runtime", [{}, {"runtimeClassName": None}], ids=["nvidia", "default"])
def test_a_pod_that_requests_a_partition_gets_that_one(
    lab: Any, setting: str, runtime: dict[str, Any]
) -> None:
    named = slug(setting, "requests") + ("-default" if runtime else "")
    sees(lab, named, REQUEST, {PARTITION}, **runtime)


@pytest.mark.parametrize("override", OVERRIDES)
def test_a_pod_that_requests_a_partition_gets_no_more_by_the_variable(
    lab: Any, setting: str, override: str
) -> None:
    container, _ = OVERRIDES[override]
    sees(lab, slug(setting, override), container, {PARTITION})


def test_the_agent_sees_everything(lab: Any, setting: str) -> None:
    container, pod = agent(setting)
    sees(lab, slug(setting, "agent"), container, EVERYTHING, **pod)
    assert verdict(lab, slug(setting, "verifies"), container, pod).endswith("exit 0")


def test_an_agent_that_asks_by_the_variable_sees_nothing_with_the_key(
    lab: Any, setting: str
) -> None:
    """So the mount above is what brings the GPUs."""
    container, pod = agent(setting)
    without = {**container, "volumeMounts": []}
    by_variable = setting == "variable"
    wanted = EVERYTHING if by_variable else {NOTHING}
    sees(lab, slug(setting, "old-agent"), without, wanted, **pod)
    text = verdict(lab, slug(setting, "old-verifies"), without, pod)
    assert text.endswith("exit 0") is by_variable, text


MOUNT = {"volumeMounts": [{"name": "all", "mountPath": "/var/run/nvidia-container-devices/all"}]}
ADMIN = {"env": [ALL], "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}
NULL = {"volumes": [{"name": "all", "hostPath": {"path": "/dev/null", "type": "CharDevice"}}]}


@pytest.mark.parametrize(
    ("name", "container", "pod", "reason"),
    [
        ("mount", MOUNT, NULL, "hostPath volumes"),
        ("admin", ADMIN, {}, "non-default capabilities"),
    ],
    ids=["mount", "CAP_SYS_ADMIN"],
)
def test_the_ways_that_are_left_take_pod_security_baseline_to_refuse(
    lab: Any,
    setting: str,
    name: str,
    container: dict[str, Any],
    pod: dict[str, Any],
    reason: str,
) -> None:
    """A mount of /dev/null is a hostPath. In a namespace that admits it, it brings everything."""
    ignored = name == "mount" and setting == "variable"
    sees(lab, slug(setting, name), container, {NOTHING} if ignored else EVERYTHING, **pod)
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "python:3.13-slim", **container}], **pod},
    }
    with pytest.raises(ApiError, match=f'violates PodSecurity "baseline:latest": {reason}'):
        lab.client.create("/api/v1/namespaces/tenant/pods", body, dryRun="All")
