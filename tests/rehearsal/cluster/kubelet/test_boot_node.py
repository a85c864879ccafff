"""Nodes of EKS whose user data partitions their GPUs: it runs before the kubelet starts."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any

import pytest

from slicewright.infra import manifests, plan, stack_file
from slicewright.rehearsal.clouds.aws.ec2.user_data import shell_scripts
from slicewright.rehearsal.cluster.kubelet.nodes import reboots
from slicewright.rehearsal.cluster.kubelet.nodes.node import DOWN
from slicewright.rehearsal.cluster.node import machine as machines
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.cluster.silicon import state


def scripts(machine_type: str, layout: dict[str, int]) -> list[str]:
    """The scripts of a pool's user data, for nodes with two GPUs."""
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": machine_type,
                "nodes": {"count": 1},
                "partition": {"mode": "boot", "layout": layout},
            }
        ],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    template = fleet.pools[0].settings.template
    assert template is not None
    assert template.boot is not None
    two = dataclasses.replace(template.boot, gpus=template.boot.gpus[:2])
    text = manifests.eks_user_data(dataclasses.replace(template, boot=two))
    return shell_scripts({"UserData": text})


def add_node(cluster: Any, name: str, model: str, user_data: list[str], **more: Any) -> str:
    machine = {
        "cloud": "eks",
        "gpu_model": model,
        "gpu_count": 2,
        "driver_version": "580.159.03",
        "user_data": user_data,
        **more,
    }
    return str(cluster.add_node(name, machine, more_annotations={DOWN: "true"}))


def files(cluster: Any, name: str) -> NodeFiles:
    return NodeFiles(cluster.directory / "nodes" / name)


def ready(node: dict[str, Any] | None) -> bool:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def profiles(cluster: Any, name: str) -> list[list[str]]:
    return [list(gpu.profiles) for gpu in state.load(files(cluster, name).silicon).gpus]


def result(cluster: Any, name: str) -> dict[str, Any]:
    path = cluster.directory / "nodes" / name / "system" / "run" / "layout.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_its_gpus_are_partitioned_when_it_becomes_ready(cluster: Any) -> None:
    path = add_node(cluster, "boot-h100", "H100-80", scripts("p5.48xlarge", {"3g.40gb": 2}))
    cluster.until(path, ready)
    assert profiles(cluster, "boot-h100") == [["3g.40gb", "3g.40gb"]] * 2
    assert result(cluster, "boot-h100")["result"] == "success"


def test_it_partitions_again_when_it_reboots(cluster: Any) -> None:
    path = add_node(cluster, "boot-again", "H100-80", scripts("p5.48xlarge", {"7g.80gb": 1}))
    before = cluster.until(path, lambda found: found if ready(found) else None)
    boot = before["status"]["nodeInfo"]["bootID"]
    reboots.request(files(cluster, "boot-again").root)
    cluster.until(path, lambda n: ready(n) and n["status"]["nodeInfo"]["bootID"] != boot)
    assert profiles(cluster, "boot-again") == [["7g.80gb"]] * 2


def test_an_a100_reboots_once_before_it_joins(cluster: Any) -> None:
    path = add_node(cluster, "boot-a100", "A100-40", scripts("p4d.24xlarge", {"1g.5gb": 7}))
    cluster.until(path, ready)
    assert profiles(cluster, "boot-a100") == [["1g.5gb"] * 7] * 2
    console = (cluster.directory / "nodes" / "boot-a100" / "console.log").read_text()
    assert console.count("this node reboots once") == 1


def test_it_waits_for_a_driver_that_loads_late(cluster: Any) -> None:
    user_data = scripts("p5.48xlarge", {"3g.40gb": 2})
    path = add_node(cluster, "boot-late", "H100-80", user_data, driver_after_s=2.0)
    cluster.until(path, ready)
    assert result(cluster, "boot-late")["result"] == "success"


def test_a_node_with_other_gpus_joins_and_says_why_it_is_not_partitioned(cluster: Any) -> None:
    path = add_node(cluster, "boot-other", "H200", scripts("p5.48xlarge", {"3g.40gb": 2}))
    cluster.until(path, ready)
    assert "PCI ID" in result(cluster, "boot-other")["message"]


@pytest.mark.timeout(120)
def test_a_node_whose_unit_leaves_no_result_does_not_join(cluster: Any) -> None:
    broken = "#!/bin/bash\nset -eu\n" + "".join(
        line
        for line in scripts("p5.48xlarge", {"3g.40gb": 2})[0].splitlines(keepends=True)
        if "layout.json\n" not in line or "Assert" in line
    )
    path = add_node(cluster, "boot-broken", "H100-80", [broken])
    console = cluster.directory / "nodes" / "boot-broken" / "console.log"
    cluster.until(path, lambda _: console.exists() and "after" in console.read_text())
    assert not ready(cluster.client.get(path))


def test_the_machine_annotation_carries_the_scripts() -> None:
    user_data = base64.b64encode(b"x").decode()
    machine = machines.read({"cloud": "eks", "user_data": [user_data]})
    assert machine.user_data == (user_data,)
