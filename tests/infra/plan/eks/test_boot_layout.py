"""EKS pools whose nodes partition their GPUs when they boot: the plan, user data, and refusals."""

from __future__ import annotations

import base64
import email
import json
from collections.abc import Callable
from typing import Any

import pytest

from slicewright.infra import catalog, geometry, manifests, plan, stack_file
from slicewright.infra.manifests.eks.karpenter import (
    karpenter_plan,
    node_class,
    node_overlay,
    node_pool,
)
from slicewright.infra.manifests.rollout_warnings import rollout_warnings
from slicewright.infra.plan.partition.boot import boot_layout
from slicewright.rehearsal.clouds.aws.ec2.user_data import node_config
from tests.recorder import Made

LABEL = "slicewright.io/boot-layout"
LIMIT = 10_000
"""Bytes of own user data: EC2 allows 16,384 with those that EKS or Karpenter adds."""


def planned(cluster: dict[str, Any] | None = None, **pool: Any) -> plan.EksFleetPlan:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1", **(cluster or {})},
        "node_pools": [{"name": "a", "machine_type": "p5.48xlarge", "nodes": {"count": 1}, **pool}],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    return fleet


def refusal(**pool: Any) -> str:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(**pool)
    (problem,) = refused.value.problems
    return str(problem)


def boot(**layout: Any) -> dict[str, Any]:
    return {"mode": "boot", **layout}


def user_data(fleet: plan.EksFleetPlan) -> str:
    template = fleet.pools[0].settings.template
    assert template is not None
    text = manifests.eks_user_data(template)
    assert text is not None
    return text


def test_a_node_offers_the_same_partitions_as_with_mig_manager() -> None:
    layout = {"layout": {"3g.40gb": 1, "1g.10gb": 4}}
    (at_boot,), (by_manager,) = (
        planned(partition={"mode": mode, **layout}).pools for mode in ("boot", "operator")
    )
    assert at_boot.offer.resources == by_manager.offer.resources
    assert at_boot.offer.layouts == by_manager.offer.layouts
    assert json.loads(at_boot.offer.desired)["partitioner"] == "boot"


def test_mig_manager_stays_off_the_nodes_and_sets_no_layout_by_default() -> None:
    fleet = planned(partition=boot(layout={"3g.40gb": 2}))
    (pool,) = fleet.pools
    assert pool.offer.mig_config is None
    assert pool.labels["nvidia.com/gpu.deploy.mig-manager"] == "false"
    values = manifests.operator_values(fleet, manifests.operator_files(fleet))
    assert values["migManager"]["config"]["default"] == ""
    assert values["migManager"]["enabled"] is False


def test_mig_manager_is_installed_for_the_other_pools() -> None:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1"},
        "node_pools": [
            {
                "name": mode,
                "machine_type": "p5.48xlarge",
                "nodes": {"count": 1},
                "partition": {"mode": mode, "layout": {"3g.40gb": 2}},
            }
            for mode in ("boot", "operator")
        ],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    manager = manifests.operator_values(fleet, manifests.operator_files(fleet))["migManager"]
    assert (manager["enabled"], manager["config"]["default"]) == (True, "")


def test_user_data_has_the_program_and_names_the_layout() -> None:
    fleet = planned(partition=boot(layout={"3g.40gb": 2}))
    layout = fleet.pools[0].boot_layout
    assert layout is not None
    data = {"UserData": user_data(fleet)}
    assert node_config(data).labels == ((LABEL, layout.digest),)
    parts = email.message_from_bytes(base64.b64decode(data["UserData"])).get_payload()
    assert isinstance(parts, list)
    kinds = [part.get_content_type() for part in parts if not isinstance(part, str)]
    assert kinds == ["application/node.eks.aws", "text/x-shellscript"]


def test_user_data_of_every_layout_leaves_room_for_the_cloud() -> None:
    many = [{"index": [i], "layout": {"1g.10gb": 7}} for i in range(7)]
    gpus = [*many, {"index": [7], "layout": {"1g.10gb+me": 1, "1g.10gb": 6}}]
    fleet = planned(partition=boot(gpus=gpus), instance_store="raid0")
    assert len(base64.b64decode(user_data(fleet))) < LIMIT


def test_another_layout_has_another_name() -> None:
    gpu = catalog.load().gpus["H100-80"]
    digests = {boot_layout(gpu, [layout] * 8).digest for layout in geometry.layouts(gpu)}
    assert len(digests) == len(tuple(geometry.layouts(gpu)))


def by_karpenter(layout: dict[str, int]) -> plan.EksFleetPlan:
    return planned(
        {"autoscaler": {"mode": "karpenter"}, "version": "1.34"},
        partition=boot(layout=layout),
        nodes={"min": 0, "max": 2},
        release_version="1.34.0-20260714",
    )


def class_and_pool(fleet: plan.EksFleetPlan) -> tuple[Any, Any]:
    (pool,) = fleet.pools
    spec = node_class(pool, role="r", subnet_ids=["s"], security_group="g")
    return spec, node_pool(pool, karpenter_plan(fleet))


def test_karpenters_nodes_get_the_same_program() -> None:
    fleet = by_karpenter({"3g.40gb": 2})
    spec, of_nodes = class_and_pool(fleet)
    assert "slicewright-layout.service" in spec["userData"]
    labels = of_nodes["template"]["metadata"]["labels"]
    assert labels["nvidia.com/gpu.deploy.mig-manager"] == "false"
    startup = [taint["key"] for taint in of_nodes["template"]["spec"]["startupTaints"]]
    assert startup == ["startup-taint.cluster-autoscaler.kubernetes.io/slicewright"]
    overlay = node_overlay(fleet.pools[0])
    assert overlay is not None
    assert overlay["capacity"] == {"nvidia.com/mig-3g.40gb": "16"}
    manager = manifests.operator_values(fleet, manifests.operator_files(fleet))["migManager"]
    assert (manager["enabled"], manager["config"]["default"]) == (False, "")


def test_karpenter_replaces_the_nodes_of_another_boot_layout() -> None:
    before, after = by_karpenter({"3g.40gb": 2}), by_karpenter({"1g.10gb": 7})
    (change,) = plan.compare(before, after).pools
    assert change.effect is plan.ChangeEffect.ROLL
    (boot_change,) = (c for c in change.changes if c.rule.field == "template.boot")
    assert "Karpenter" in boot_change.why
    old, new = (class_and_pool(fleet)[0]["userData"] for fleet in (before, after))
    assert old != new, "a class with other user data lets its nodes drift"


@pytest.mark.parametrize(
    ("pool", "why"),
    [
        (
            {
                "partition": boot(layout={"3g.40gb": 2}),
                "ami_type": "BOTTLEROCKET_x86_64_NVIDIA",
            },
            "Bottlerocket runs no programs of its user data",
        ),
        ({"partition": boot(layout={"3g.40gb": 3})}, "does not fit"),
        ({"partition": boot()}, "has none of layout, config and gpus"),
    ],
)
def test_a_layout_that_the_nodes_cannot_make_is_refused(pool: dict[str, Any], why: str) -> None:
    assert why in refusal(**pool)


def test_only_eks_nodes_have_such_a_program() -> None:
    raw = {
        "cloud": "gke",
        "cluster": {"name": "c", "location": "us-central1"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "a3-highgpu-8g",
                "nodes": {"count": 1},
                "partition": boot(layout={"3g.40gb": 2}),
            }
        ],
    }
    with pytest.raises(stack_file.SpecError, match="only EKS nodes with Amazon Linux"):
        plan.read(json.dumps(raw), stack_file.Source("test", raw))


def test_another_layout_replaces_the_nodes_one_by_one() -> None:
    before, after = (
        planned(partition=boot(layout=layout)) for layout in ({"3g.40gb": 2}, {"1g.10gb": 7})
    )
    (change,) = plan.compare(before, after).pools
    rules = {c.rule.field: c for c in change.changes}
    assert "template.boot" in rules
    assert change.effect is plan.ChangeEffect.ROLL
    assert "EKS replaces all nodes" in rules["template.boot"].rule.why


def test_a_pool_of_mig_managers_gets_new_nodes_and_not_another_label() -> None:
    before, after = (
        planned(partition={"mode": mode, "layout": {"3g.40gb": 2}}, disk={"encrypted": True})
        for mode in ("operator", "boot")
    )
    (change,) = plan.compare(before, after).pools
    fields = {c.rule.field for c in change.changes}
    assert "template.boot" in fields
    assert "mig_config" not in fields


def notes(machine_type: str, mode: str, profile: str, **operator: Any) -> list[str]:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1"},
        "gpu_operator": operator,
        "node_pools": [
            {
                "name": "a",
                "machine_type": machine_type,
                "nodes": {"count": 1},
                "partition": {"mode": mode, "layout": {profile: 1}},
            }
        ],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    return [note for note in plan.notes(fleet) if "is recommended for" in note]


@pytest.mark.parametrize(
    ("machine_type", "mode", "profile", "recommended"),
    [
        ("p5.48xlarge", "operator", "3g.40gb", "mode: boot"),
        ("p5.48xlarge", "boot", "3g.40gb", None),
        ("p4d.24xlarge", "boot", "3g.20gb", "mode: operator"),
        ("p4d.24xlarge", "operator", "3g.20gb", None),
    ],
)
def test_the_better_way_for_the_gpu_is_recommended(
    machine_type: str, mode: str, profile: str, recommended: str | None
) -> None:
    found = notes(machine_type, mode, profile)
    assert [recommended in note for note in found] == ([True] if recommended else [])


def test_mig_manager_can_leave_the_kubelet_running() -> None:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1"},
        "gpu_operator": {"mig_manager": {"stop_kubelet": False}},
        "node_pools": [{"name": "a", "machine_type": "p5.48xlarge", "nodes": {"count": 1}}],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    values = manifests.operator_values(fleet, manifests.operator_files(fleet))
    assert {"name": "HOST_KUBELET_SYSTEMD_SERVICE", "value": "none.service"} in values[
        "migManager"
    ]["env"]


def test_a_preview_says_how_another_layout_replaces_the_nodes() -> None:
    (pool,) = planned(
        partition=boot(layout={"3g.40gb": 2}), rollout={"max_unavailable": 2}, nodes={"count": 4}
    ).pools
    assert pool.boot_layout is not None
    nodes = {"nodes": {"total": 4.0}}
    live = {"bootLayout": "0ld0ld00"}
    (warning,) = rollout_warnings(pool, live, nodes)
    assert "EKS replaces its 4 nodes, 2 at a time" in warning
    assert "not until it is verified" in warning
    assert rollout_warnings(pool, {"bootLayout": pool.boot_layout.digest}, nodes) == []


@pytest.mark.parametrize("limit", [3, "25%"])
def test_nodes_are_replaced_as_many_at_a_time_as_the_rollout_allows(
    limit: int | str,
) -> None:
    rollout = {"max_unavailable": limit}
    for layout, expected in ((boot(layout={"3g.40gb": 2}), limit), ("none", 1)):
        (pool,) = planned(partition=layout, rollout=rollout, nodes={"count": 4}).pools
        assert pool.settings.update.max_unavailable == expected


FLEET = """\
cloud: eks
cluster: {name: c, region: us-west-2}
node_pools:
- name: a
  machine_type: p5.48xlarge
  nodes: {count: 2}
  partition: {mode: boot, layout: {3g.40gb: 2}}
"""


def test_each_boot_layout_has_a_daemonset_of_agents(record: Callable[..., list[Made]]) -> None:
    made = record("test", fleet=FLEET)

    def inputs(kind: str, name: str) -> Any:
        (found,) = (m.inputs for m in made if m.type.endswith(kind) and m.name == name)
        return found

    digest = inputs(":GPUPool", "gpu-pool-a")["spec"]["bootLayout"]
    agents = inputs(":DaemonSet", f"node-agent-a-{digest}")
    assert agents["metadata"]["name"] == f"node-agent-a-{digest}"
    nodes = {"slicewright.io/pool": "a", LABEL: digest}
    assert agents["spec"]["template"]["spec"]["nodeSelector"] == nodes
    assert nodes.items() <= agents["spec"]["selector"]["matchLabels"].items()
    template = inputs(":LaunchTemplate", "eks-a")
    assert node_config({"UserData": template["userData"]}).labels == ((LABEL, digest),)
    group = inputs(":NodeGroup", "eks-a")
    assert group["labels"]["nvidia.com/gpu.deploy.mig-manager"] == "false"
    assert LABEL not in group["labels"], "EKS would set it on nodes with the old layout too"
