"""What the clouds' APIs refuse of a pool, refused by `check` first; slicewright's own labels and
taints count.

The simulated clouds refuse the same (rehearsal/clouds/gcp/gke/checks.py, aws/eks/checks.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from slicewright.infra import catalog, plan, stack_file

GKE = """\
cloud: gke
cluster: {{name: main, location: {location}}}
node_pools: [{{name: a, zones: [{zone}], nodes: {{count: 1}}, {pool}}}]
"""
EKS = """\
cloud: eks
cluster: {{name: c, region: us-west-2}}
node_pools: [{{name: a, machine_type: p4d.24xlarge, nodes: {{count: 1}}, {pool}}}]
"""


def gke(pool: str, *, location: str = "us-central1", zone: str = "us-central1-a") -> str:
    return GKE.format(location=location, zone=zone, pool=pool)


def _and(fleet: str, nodes: str) -> str:
    """With a second pool."""
    more = f"{{name: b, zones: [us-central1-b], {A100}, nodes: {{{nodes}}}}}"
    return fleet.replace("}]\n", f"}}, {more}]\n")


def _many(kind: str, count: int) -> str:
    if kind == "taints":
        return str([{"key": f"t{i}", "effect": "NoSchedule"} for i in range(count)])
    return str({f"l{i}": "x" for i in range(count)})


A100 = "machine_type: a2-highgpu-1g"
H100 = "machine_type: a3-highgpu-8g"
LONG_LABELS = str({f"l{i:059}": "v" * 60 for i in range(8)} | {"l": "v" * 60})
"""1,021 characters: only with slicewright's own label they are too many."""


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        (gke("machine_type: a4-highgpu-8g, disk: {type: pd-ssd}"), "write hyperdisk-balanced"),
        (gke("machine_type: a4x-highgpu-4g, disk: {type: pd-balanced}"), "cannot boot from pd-bal"),
        (gke(f"{H100}, disk: {{type: pd-standard}}"), "write pd-balanced or pd-ssd or hyperdisk"),
        (gke("machine_type: g2-standard-4, disk: {type: hyperdisk-balanced}"), "cannot boot from"),
        (gke(f"{A100}, disk: {{type: hyperdisk-balanced}}"), "cannot boot from hyperdisk"),
        (gke(f"{A100}, local_ssd: {{raw: 3}}"), "takes 1, 2, 4, 8 local SSDs, not 3"),
        (gke("machine_type: g2-standard-48, local_ssd: {ephemeral: 1}"), "takes 4 local SSDs"),
        (gke(f"{H100}, local_ssd: {{ephemeral: 8}}"), "has 16 local SSDs, not 8"),
        (gke(f"{A100}, features: {{fast_socket: true, gvnic: false}}"), "fast_socket needs gVNIC"),
        (gke(f"{A100}, features: {{gcfs: true}}, image_type: UBUNTU_CONTAINERD"), "needs COS_CONT"),
        (gke(f"{A100}, management: {{auto_upgrade: false}}"), "release channel"),
        (gke(f"{A100}, labels: {{cloud.google.com/x: y}}"), "GKE refuses labels with a kubernetes"),
        (gke(f"{A100}, labels: {{a.kubernetes.io/x: y}}"), "GKE refuses labels with"),
        (gke(f"{A100}, resource_labels: {_many('labels', 65)}"), "65 labels are too many"),
        (
            gke(f"{A100}, labels: {LONG_LABELS}"),
            "with slicewright's own labels: GKE allows 1024",
        ),
        (gke(A100, zone="us-central1-d"), "us-central1-d is not a zone of us-central1; write one"),
        (gke(A100, location="us-central7"), "us-central7 is not a region that Google Cloud had on"),
        (gke(A100, location="us-central1-d"), "us-central1-d is not a zone of us-central1; write"),
        (
            gke(A100, zone="us-central1-a, us-central1-b, us-central1-c").replace(
                "count: 1", "min: 1, max: 2"
            ),
            "with min: 1 in 3 zones begins with 3, above max: 2; write 3 or more, or name fewer",
        ),
        (
            gke(A100, zone="us-central1-a, us-central1-b").replace("count: 1", "min: 3, max: 3"),
            "with min: 3 in 2 zones begins with 4, above max: 3",
        ),
        (
            gke(A100) + "system_pool: {zones: [us-central1-a, us-central1-b], "
            "nodes: {min: 1, max: 1}}\n",
            "system_pool.nodes.max: GKE creates the same number of nodes in each zone",
        ),
        (
            _and(gke(A100).replace("count: 1", "count: 512"), "min: 0, max: 512"),
            "take 262400 addresses, and the network that the stack makes has 262144",
        ),
        (
            gke(f"{A100}, max_pods_per_node: 16", zone="us-central1-a, us-central1-b, "
                "us-central1-c, us-central1-f").replace("count: 1", "min: 0, max: 4000")
            + "system_pool: {nodes: {min: 1, max: 100}}\n",
            "pools may have 4100 nodes, and the network that the stack creates has 4092",
        ),
        (gke(A100).replace("main,", 'main, version: "9.9",'), "9.9 is not a Kubernetes version"),
        (
            EKS.format(pool="labels: {}").replace("count: 1", "count: 4091"),
            "pools may have 4092 nodes in us-west-2a, and the subnet that the stack creates "
            "there has",
        ),
        (EKS.format(pool=f"taints: {_many('taints', 49)}"), "49 taints and slicewright's 2 "),
        (EKS.format(pool="labels: {eks.amazonaws.com/x: y}"), "EKS refuses labels with a kubern"),
    ],
)  # fmt: skip
def test_values_beyond_a_clouds_limits_are_refused(
    broken: Callable[[str], str], fleet: str, said: str
) -> None:
    refused = broken(fleet)
    assert said in refused
    assert " 1 problem," in refused


@pytest.mark.parametrize(
    "fleet",
    [
        gke(A100, zone="us-central1-d"),
        gke(A100, location="us-central1-d").replace("us-central1-c", "us-central1-d"),
        gke(A100, location="us-north9-d", zone="us-north9-d"),
        gke(A100).replace("main,", 'main, version: "1.99",'),
        EKS.format(pool="zones: [us-west-2e]"),
        EKS.format(pool="labels: {}").replace("us-west-2", "us-west-9"),
        EKS.format(pool="labels: {}").replace("us-west-2", "us-gov-north-1"),
        EKS.format(pool="labels: {}").replace("us-west-2", "eu-south-1"),
    ],
)
def test_values_newer_than_the_catalog_can_be_accepted(
    broken: Callable[[str], str], fleet: str
) -> None:
    refused = broken(fleet)
    assert " (or allow_unlisted: true, if it is new) [source: " in refused
    raw: Any = yaml.safe_load(f"{fleet}allow_unlisted: true\n")
    made = plan.read(json.dumps(raw), stack_file.Source("x", raw))
    assert made.pools
    assert plan.notes(made) is not None


@pytest.mark.parametrize(
    "fleet",
    [
        gke(A100).replace("count: 1", "count: 1000"),
        gke(A100, zone="us-central1-a, us-central1-b").replace("count: 1", "min: 3, max: 4"),
        EKS.format(pool="zones: [us-west-2b]").replace("count: 1", "count: 4090"),
        EKS.format(pool="labels: {}")
        .replace("count: 1", "count: 4091")
        .replace(
            "us-west-2}",
            "us-west-2, network: {mode: existing, subnets: [subnet-1234abcd]}}",
        ),
        # Its ranges are not the stack's.
        _and(gke(A100).replace("count: 1", "count: 1000"), "count: 1000").replace(
            "main,", "main, network: {vpc: v, subnet: s, pods_range: p, services_range: q},"
        ),
    ],
)
def test_as_many_nodes_as_the_network_holds_are_accepted(fleet: str) -> None:
    raw: Any = yaml.safe_load(fleet)
    assert plan.read(json.dumps(raw), stack_file.Source("x", raw)).pools


@pytest.mark.parametrize(
    ("nodes", "addons", "said"),
    [
        ("count: 40", "", True),
        ("count: 39", "", False),
        ("count: 40", ", addons: {vpc-cni: {settings: {env: {WARM_IP_TARGET: '2'}}}}", False),
        ("count: 40", ", addons: {vpc-cni: {version: v1.21.1-eksbuild.1}}", True),
    ],
)
def test_the_addresses_that_the_cni_keeps_are_reported(nodes: str, addons: str, said: bool) -> None:
    fleet = EKS.format(pool="labels: {}").replace("count: 1", nodes)
    raw: Any = yaml.safe_load(fleet.replace("us-west-2}", f"us-west-2{addons}}}"))
    noted = plan.notes(plan.read(json.dumps(raw), stack_file.Source("x", raw)))
    assert said is any("in us-west-2a, whose subnet has 4091 addresses" in note for note in noted)


@pytest.mark.parametrize(
    ("pools", "nodes", "said"),
    [
        (30, 1, "31 node groups, with the system pool's: EKS allows 30"),
        (29, 1, None),
        (1, 451, "pool p0: EKS gives a node group 450 nodes at most, and not 451"),
        (1, 450, None),
    ],
)
def test_a_note_names_quotas_that_must_be_raised(pools: int, nodes: int, said: str | None) -> None:
    raw: Any = yaml.safe_load(EKS.format(pool="labels: {}"))
    (pool,) = raw["node_pools"]
    raw["node_pools"] = [{**pool, "name": f"p{i}", "nodes": {"count": nodes}} for i in range(pools)]
    noted = plan.notes(plan.read(json.dumps(raw), stack_file.Source("x", raw)))
    about = [note for note in noted if "until the account's quota" in note]
    assert [said in note for note in about if said] == ([True] if said else [])
    assert bool(about) is bool(said)


def test_the_nodes_that_a_pool_has_more_at_first_are_reported() -> None:
    raw: Any = yaml.safe_load(
        gke(A100, zone="us-central1-a, us-central1-b").replace("count: 1", "min: 3, max: 4")
    )
    made = plan.read(json.dumps(raw), stack_file.Source("x", raw))
    (said,) = (note for note in plan.notes(made) if "starts with" in note)
    assert said.startswith("pool a: starts with 4 nodes, the same number in each zone")


def test_the_zones_of_an_unlisted_region_are_not_guessed(broken: Callable[[str], str]) -> None:
    fleet = gke(A100, location="us-north9", zone="us-north9-a")
    assert "system_pool.zones: is required" in broken(f"{fleet}allow_unlisted: true\n")


@pytest.mark.parametrize(
    ("region", "partition", "suffix"),
    [
        ("eu-west-9", "aws", "amazonaws.com"),
        ("us-gov-north-1", "aws-us-gov", "amazonaws.com"),
        ("cn-south-1", "aws-cn", "amazonaws.com.cn"),
    ],
)
def test_an_unlisted_region_is_in_the_partition_that_its_name_says(
    region: str, partition: str, suffix: str
) -> None:
    found = catalog.aws_region(region)
    assert (found.partition, found.suffix, found.zones) == (partition, suffix, ())


@pytest.mark.parametrize(
    "fleet",
    [
        gke("machine_type: a4-highgpu-8g, disk: {type: hyperdisk-balanced}"),
        gke(f"{A100}, local_ssd: {{raw: 8}}, disk: {{type: pd-standard}}"),
        gke(A100).replace("main,", 'main, release_channel: EXTENDED, version: "1.32",'),
        EKS.format(pool=f"taints: {_many('taints', 48)}"),
    ],
)
def test_up_to_the_limits_it_is_allowed(fleet: str) -> None:
    raw: Any = yaml.safe_load(fleet)
    plan.read(json.dumps(raw), stack_file.Source("x", raw))
