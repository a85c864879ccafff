"""Networks of a VPC for each interface, for GPUDirect-TCPX and -TCPXO: what the stack file may say,
and what is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.infra.components.gke.node_pools import REPLACE_ON_CHANGES
from slicewright.infra.plan import ChangeEffect
from tests.recorder import Made

POOL = {
    "name": "a",
    "machine_type": "a3-megagpu-8g",
    "zones": ["us-central1-a"],
    "nodes": {"count": 2},
    "gpu_network": "tcpxo",
}
HIGH = {"machine_type": "a3-highgpu-8g", "gpu_network": "tcpx"}
Record = Callable[..., list[Made]]


def there(count: int) -> list[dict[str, str]]:
    return [{"vpc": f"gpu-{i}", "subnet": f"nodes-{i}"} for i in range(count)]


def fleet(cluster: Mapping[str, Any] | None = None, **pool: Any) -> str:
    where = {"name": "main", "location": "us-central1", **(cluster or {})}
    stated = {k: v for k, v in {**POOL, **pool}.items() if v is not None}
    return yaml.safe_dump({"cloud": "gke", "cluster": where, "node_pools": [stated]})


def planned(text: str) -> plan.GkeFleetPlan:
    raw = yaml.safe_load(text)
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.GkeFleetPlan)
    return found


def inputs(made: list[Made], kind: str) -> list[dict[str, Any]]:
    return [dict(m.inputs) for m in made if m.type == kind]


def test_the_stack_makes_a_vpc_for_each_interface_and_lets_its_nodes_reach_each_other(
    record: Record,
) -> None:
    made = record("gke-h100", fleet=fleet())
    vpcs = [v for v in inputs(made, "gcp:compute/network:Network") if v.get("mtu")]
    assert [vpc["mtu"] for vpc in vpcs] == [8244] * 8
    blocks = [s["ipCidrRange"] for s in inputs(made, "gcp:compute/subnetwork:Subnetwork")]
    of_gpus = [block for block in blocks if block.startswith("172.20.")]
    assert len(set(of_gpus)) == 8
    rules = inputs(made, "gcp:compute/firewall:Firewall")
    assert sorted(rule["sourceRanges"][0] for rule in rules) == sorted(of_gpus)
    assert {one["protocol"] for rule in rules for one in rule["allows"]} == {"tcp", "udp", "icmp"}


def test_the_nodes_have_an_interface_in_each_and_the_system_pool_has_none(record: Record) -> None:
    made = record("gke-h100", fleet=fleet({"gpu_networks": there(8)}))
    (cluster,) = inputs(made, "gcp:container/cluster:Cluster")
    assert cluster["enableMultiNetworking"] is True
    pools = {p["name"]: p for p in inputs(made, "gcp:container/nodePool:NodePool")}
    asked = pools["a"]["networkConfig"]["additionalNodeNetworkConfigs"]
    assert asked == [{"network": f"gpu-{i}", "subnetwork": f"nodes-{i}"} for i in range(8)]
    assert "networkConfig" not in pools["system"]
    # The provider keeps networks that are no longer stated: the label that goes replaces the pool.
    assert pools["a"]["nodeConfig"]["labels"][plan.GPU_NETWORK_LABEL] == "tcpxo"
    assert f'nodeConfig.labels["{plan.GPU_NETWORK_LABEL}"]' in REPLACE_ON_CHANGES
    assert not inputs(made, "gcp:compute/firewall:Firewall")


def test_pods_can_name_each_of_them(record: Record) -> None:
    made = record("gke-h100", fleet=fleet({"gpu_networks": there(4)}, **HIGH))

    def named(kind: str) -> dict[str, Any]:
        found = inputs(made, f"kubernetes:networking.gke.io/v1:{kind}")
        return {one["metadata"]["name"]: one["spec"] for one in found}

    parameters, networks = named("GKENetworkParamSet"), named("Network")
    assert [*sorted(parameters)] == [*sorted(networks)] == ["vpc1", "vpc2", "vpc3", "vpc4"]
    for i, name in enumerate(sorted(networks)):
        where = {"vpc": f"gpu-{i}", "vpcSubnet": f"nodes-{i}", "deviceMode": "NetDevice"}
        assert parameters[name] == where
        assert networks[name]["type"] == "Device"
        assert networks[name]["parametersRef"]["name"] == name


def test_a_pool_without_has_no_trace_of_it(record: Record) -> None:
    made = record("gke-h100", fleet=fleet(gpu_network=None))
    (cluster,) = inputs(made, "gcp:container/cluster:Cluster")
    assert "enableMultiNetworking" not in cluster
    assert not [m for m in made if "networking.gke.io" in m.type or "firewall" in m.type]


def test_pools_share_the_networks_and_each_has_as_many_as_its_machine_has_interfaces() -> None:
    raw = yaml.safe_load(fleet())
    raw["node_pools"].append({**POOL, **HIGH, "name": "b"})
    mega, high = planned(yaml.safe_dump(raw)).pools
    assert (len(mega.settings.gpu_networks), len(high.settings.gpu_networks)) == (8, 4)
    assert mega.settings.gpu_networks[:4] == high.settings.gpu_networks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (fleet(machine_type="a3-highgpu-8g"), "GPUDirect-TCPX, and tcpxo is GPUDirect-TCPXO"),
        (fleet(gpu_network="tcpx"), "write tcpxo, or leave it out"),
        (fleet(gpu_network="dranet"), "write tcpxo, or leave it out"),
        (fleet(machine_type="a2-highgpu-8g"), "a2-highgpu-8g has no network interfaces"),
        (fleet(image_type="UBUNTU_CONTAINERD"), "GPUDirect-TCPXO needs COS_CONTAINERD"),
        (fleet({"gpu_networks": there(7)}), "there are 7, and the pools' machines have 8"),
        (fleet({"gpu_networks": there(8)}, gpu_network=None), "no pool uses them"),
        (
            fleet({"gpu_networks": [*there(7), there(1)[0]]}),
            "gpu_networks[7].vpc: gpu-0 is the network of another interface",
        ),
        (
            fleet({"version": "1.32.1-gke.1", "release_channel": "EXTENDED"}),
            "1.32.1-gke.1 is too old for gpu_network: tcpxo",
        ),
        (fleet(nodes={"count": 4093}), "4093 nodes with gpu_network at their most"),
    ],
)
def test_gpu_direct_settings_that_google_refuses_are_refused(
    broken: Callable[[str], str], text: str, said: str
) -> None:
    assert said in broken(text)


def test_the_vpc_of_the_cluster_is_not_that_of_another_interface(
    broken: Callable[[str], str],
) -> None:
    ranges = {"subnet": "s", "pods_range": "p", "services_range": "q"}
    text = fleet({"network": {"vpc": "gpu-3", **ranges}, "gpu_networks": there(8)})
    assert "gpu-3 is the network of another interface" in broken(text)
    shared = "projects/host-project/global/networks/gpu-3"
    planned(fleet({"network": {"vpc": shared, **ranges}, "gpu_networks": there(8)}))


@pytest.mark.parametrize(
    ("mode", "version", "offers"),
    [
        ("tcpx", "1.27", True),
        ("tcpx", "1.27.7-gke.1120999", False),
        ("tcpx", "1.27.7-gke.1121000", True),
        ("tcpx", "1.31.0", True),
        ("tcpx", "1.26.15", False),
        ("tcpxo", "1.27.16", False),
        ("tcpxo", "1.32.2-gke.1489001", True),
        ("tcpxo", "1.33.0", True),
        ("tcpxo", "latest", True),
    ],
)
def test_a_version_has_it_from_a_patch_of_its_minor_on(
    mode: str, version: str, offers: bool
) -> None:
    assert plan.offers_gpu_direct(mode, version) == offers


def test_the_plan_says_that_other_subnets_replace_the_pool_and_not_the_cluster() -> None:
    other = [*there(7), {"vpc": "gpu-9", "subnet": "nodes-9"}]
    before, after = (planned(fleet({"gpu_networks": one})) for one in (there(8), other))
    found = plan.compare(before, after)
    assert not found.everything
    assert [pool.effect for pool in found.pools] == [ChangeEffect.REPLACE]


def test_a_note_says_who_installs_nccls_plugin() -> None:
    (said,) = [n for n in plan.notes(planned(fleet())) if "NCCL" in n]
    assert "vpc1 to vpc8" in said
    assert "which slicewright does not install" in said
    assert not [n for n in plan.notes(planned(fleet(gpu_network=None))) if "NCCL" in n]
