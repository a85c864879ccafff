"""The resources of a fleet whose GPUs an engine shares by fractions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.components.fleet.adopted_operator import WrongSettings
from slicewright.infra.manifests.fractional.volcano import scheduler_config
from tests.recorder import Made, recorded

GOLDEN = Path(__file__).parents[1] / "golden"


def made_for(engine: str) -> list[Made]:
    return list(recorded(plan.read_file(GOLDEN / f"fractional-{engine}.yaml"), "shared"))


def named(made: list[Made], kind: str, name: str = "") -> dict[str, Any]:
    (resource,) = (m for m in made if m.type.endswith(f":{kind}") and name in m.name)
    return dict(resource.inputs)


@pytest.mark.usefixtures("zipapps")
@pytest.mark.parametrize(
    ("engine", "release", "version", "namespace"),
    [
        ("hami", "hami", "2.10.0", "hami-system"),
        ("volcano", "volcano", "1.15.1", "volcano-system"),
        ("volcano", "volcano-vgpu-device-plugin", "1.12.0", "kube-system"),
    ],
)
def test_each_chart_is_a_pinned_release(
    engine: str, release: str, version: str, namespace: str
) -> None:
    made = made_for(engine)
    inputs = next(
        m.inputs for m in made if m.type.endswith(":Release") and m.inputs["name"] == release
    )
    assert (inputs["chart"], inputs["version"], inputs["namespace"]) == (
        release,
        version,
        namespace,
    )
    # Kubernetes' own namespace is not the stack's.
    names = [m.inputs["metadata"]["name"] for m in made if m.type.endswith(":Namespace")]
    assert (namespace in names) == (namespace != "kube-system")
    assert bool(inputs.get("skipAwait")) == (namespace == "kube-system")


@pytest.mark.usefixtures("zipapps")
@pytest.mark.parametrize("engine", ["hami", "volcano"])
def test_policies_on_shares_guard_pods_and_nodes(engine: str) -> None:
    made = made_for(engine)
    pods = named(made, "ValidatingAdmissionPolicy", "fractional-engine-policy")
    assert pods["metadata"] == {"name": "slicewright-shares"}
    nodes = named(made, "ValidatingAdmissionPolicy", "fractional-engine-node-policy")
    assert "['shared']".replace("'", '"') in nodes["spec"]["validations"][0]["expression"]
    for name in ("slicewright-shares", "slicewright-share-nodes"):
        (binding,) = (
            m.inputs
            for m in made
            if m.type.endswith(":ValidatingAdmissionPolicyBinding")
            and m.inputs["metadata"]["name"] == name
        )
        assert binding["spec"] == {"policyName": name, "validationActions": ["Deny"]}


@pytest.mark.usefixtures("zipapps")
@pytest.mark.parametrize("engine", ["hami", "volcano"])
def test_pods_of_the_stack_name_the_engines_scheduler(engine: str) -> None:
    """HAMi's webhook may be down, and then the default scheduler binds them without a card."""
    pod = named(made_for(engine), "Deployment", "llm")["spec"]["template"]["spec"]
    assert pod["schedulerName"] == {"hami": "hami-scheduler", "volcano": "volcano"}[engine]


@pytest.mark.usefixtures("zipapps")
def test_a_fleet_without_an_engine_has_none_of_it() -> None:
    made = recorded(plan.read_file(GOLDEN / "vllm.yaml"), "vllm")
    assert not [m for m in made if "fractional-engine" in m.name]


@pytest.mark.usefixtures("zipapps")
@pytest.mark.parametrize("engine", ["hami", "volcano"])
def test_the_controller_reads_the_engine_in_the_pool(engine: str) -> None:
    (pool,) = (m for m in made_for(engine) if m.type.endswith(":GPUPool") and not m.read)
    assert pool.inputs["spec"]["shares"] == {
        "engine": engine,
        "namespace": f"{engine}-system",
        "memoryUnitMiB": {"hami": 1, "volcano": 11}[engine],
    }


EXISTING = {
    "cloud": "byo",
    "cluster": {"name": "c", "context": "c"},
    "fractional": {"provider": "volcano", "existing": True, "gpu_policy": "binpack"},
    "node_pools": [
        {
            "name": "a",
            "gpu": {"model": "T4", "count": 4},
            "nodes": {"count": 1},
            "sharing": "fractional",
        }
    ],
}
CONFIG = "volcano-system/volcano-scheduler-configmap"


def adopting(change: tuple[str, str], *, preview: bool = False) -> list[Made]:
    """With a Volcano whose configuration fits but for a change of its text."""
    fleet = plan.read(json.dumps(EXISTING), stack_file.Source("test", EXISTING))
    assert fleet.engine is not None
    config = scheduler_config(fleet.engine)
    assert change[0] in config
    data = {"volcano-scheduler.conf": config.replace(*change)}
    return list(recorded(fleet, "c", config_maps={CONFIG: data}, preview=preview))


@pytest.mark.usefixtures("zipapps")
def test_beside_an_existing_volcano_only_the_device_plugin_is_installed() -> None:
    made = adopting(("deviceshare.VGPUEnable: true", 'deviceshare.VGPUEnable: "True"'))
    releases = {m.inputs["name"] for m in made if m.type.endswith(":Release")}
    assert releases == {"gpu-operator", "volcano-vgpu-device-plugin"}
    read = [m.read for m in made if m.read and m.type.endswith(":ConfigMap")]
    assert CONFIG in read


@pytest.mark.usefixtures("zipapps")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("deviceshare.VGPUEnable: true", "deviceshare.VGPUEnable: false"),
            "deviceshare: wanted deviceshare.VGPUEnable: True, found False",
        ),
        (
            ("deviceshare.SchedulePolicy: binpack", "deviceshare.SchedulePolicy: spread"),
            "deviceshare: wanted deviceshare.SchedulePolicy: binpack, found spread",
        ),
        (("name: resource-strategy-fit", "name: binpack"), "resource-strategy-fit is missing"),
        (("tiers:", "tears:"), "volcano-scheduler.conf cannot be read"),
    ],
)
def test_an_existing_volcano_that_places_otherwise_is_refused(
    change: tuple[str, str], said: str
) -> None:
    with pytest.raises(WrongSettings) as refused:
        adopting(change)
    assert said in str(refused.value)
    assert CONFIG in str(refused.value)
    adopting(change, preview=True)


@pytest.mark.usefixtures("zipapps")
def test_the_agent_does_not_read_shared_cards_from_the_kubelet() -> None:
    """It does not know: the engine's plugin gives a container other cards than it chose."""
    raw = {**EXISTING, "fractional": {"provider": "hami"}, "node_agent": {"attribution": True}}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    agent = named(list(recorded(fleet, "c")), "DaemonSet", "node-agent-a")
    pod = agent["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts <= {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize(
    ("fractional", "exempt"),
    [
        ({"provider": "hami"}, {"hami-system"}),
        ({"provider": "hami", "namespace": "shares"}, {"shares"}),
        ({"provider": "volcano"}, {"kube-system"}),
    ],
)
def test_the_pod_guard_lets_the_device_plugin_reach_the_gpus(
    fractional: dict[str, str], exempt: set[str]
) -> None:
    """It asks for all GPUs of nodes that are not verified yet."""
    raw = {**EXISTING, "fractional": fractional, "pod_guard": {}}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert fleet.pod_guard is not None
    namespaces = set(manifests.exempt_namespaces(fleet, fleet.pod_guard))
    assert namespaces == {"gpu-operator"} | exempt
