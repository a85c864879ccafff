"""Every key of `cluster` and `system_pool`, changed alone, through the real engine: its preview
replaces what `plan --diff` says, and nothing else.

One stack holds a cluster per key, so that one `up` and one preview do for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from slicewright.infra import plan
from slicewright.infra.plan import ChangeEffect, FleetChange
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import PROJECT, CloudEngine, cloud_engine
from tests.infra.existing_vpc import ExistingVpc, role_of_pods
from tests.infra.google_project import make_network
from tests.infra.on_engine.test_every_key import make_room
from tests.infra.plan.test_change_keys import FLEETS, ROWS, Row, keys, planned, written

pytestmark = pytest.mark.long(
    "the same in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)

_PROGRAM = """\
import json
from pathlib import Path

import pulumi_aws as aws
import pulumi_gcp as gcp

from slicewright.infra import plan, stack_file
from slicewright.infra.components.eks.cluster import EksCluster
from slicewright.infra.components.gke.cluster import GkeCluster

for name, raw in json.loads(Path("fleet.json").read_text()).items():
    fleet = plan.read(json.dumps(raw), stack_file.Source("fleet.json", raw))
    region = fleet.cluster.region
    if isinstance(fleet, plan.EksFleetPlan):
        EksCluster(name, fleet, provider=aws.Provider(f"aws-{name}", region=region))
    else:
        project = "slicewright-test"
        provider = gcp.Provider(f"gcp-{name}", project=project, region=region)
        GkeCluster(name, fleet, project=project, provider=provider)
"""
REPLACING = {"replace", "create-replacement", "delete-replaced", "delete", "read-replacement"}
KINDS = {
    "gke": ("gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"),
    "eks": ("aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup"),
}
IN_THE_CLUSTER = "cluster.autoscaler."
"""Keys of what runs in the cluster, as a release of its chart, which this program does not have."""
IN_THE_CLOUD = ("cluster.autoscaler.mode", "cluster.autoscaler.interruption_queue")
"""Those of them that the role of its pods depends on, too."""
STAYS = {
    # EKS reads it when it creates a cluster, and the program does not send it later.
    "cluster.access.creator_admin",
    # The row writes the version that EKS has chosen by itself.
    "cluster.addons.version",
}
"""Keys of which the cloud has what their rows write already."""
OF_EVERY_POOL = {"cluster.kms_key", "node_subnets"}
"""Fields whose change replaces the nodes of all pools, and not the cluster."""


def rows(cloud: str) -> Mapping[str, Row]:
    """Name of a cluster -> what is changed of it."""
    found = (row for row in ROWS[cloud] if in_the_cloud(row.key))
    return {f"c{i:02}": row for i, row in enumerate(found)}


def in_the_cloud(key: str) -> bool:
    if key.startswith(IN_THE_CLUSTER):
        return key in IN_THE_CLOUD
    return key.startswith(("cluster.", "system_pool."))


def fleets(cloud: str, names: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A cluster per key, before and after. names: what the rows name -> what is there instead."""
    before, after = {}, {}
    for name, row in rows(cloud).items():
        own = {"cluster.name": name}
        before[name] = written(cloud, own, row.before)
        after[name] = written(cloud, own, row.before, row.after)
    text = json.dumps([before, after])
    for name, there in names.items():
        text = text.replace(name, there)
    before, after = json.loads(text)
    return before, after


def replaced(found: FleetChange) -> set[str]:
    """What the plan says is replaced: the cluster, its system pool, its GPU pool."""
    fields = {c.rule.field for c in found.fleet if c.effect is ChangeEffect.REPLACE}
    if any(f.startswith("cluster.") for f in fields - OF_EVERY_POOL):
        return {"cluster", "system", "a"}
    if fields & OF_EVERY_POOL:
        return {"system", "a"}
    of_pools = {part.name for part in found.pools if part.effect is ChangeEffect.REPLACE}
    return of_pools | ({"system"} if any(f.startswith("system.") for f in fields) else set())


@pytest.mark.parametrize("cloud", ["gke", "eks"])
def test_every_key_of_a_cluster_and_its_system_pool_has_a_row_with_an_effect(cloud: str) -> None:
    asked = {key for key in keys(FLEETS[cloud]) if in_the_cloud(key)}
    assert {row.key for row in rows(cloud).values() if row.effect} == asked


@pytest.fixture(params=["gke", "eks"])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> Iterator[tuple[str, CloudEngine]]:
    with cloud_engine(tmp_path_factory.mktemp(request.param), toolchain, _PROGRAM) as engine:
        yield request.param, engine


def make_named(engine: CloudEngine, cloud: str) -> Mapping[str, str]:
    """What the rows say that exists. Name in the rows, between quotes -> what is there instead."""
    if cloud == "gke":
        for vpc, subnet in (("v", "s"), *((f"gpu-{i}", f"gpu-{i}") for i in range(4))):
            make_network(
                *(engine.cloud, PROJECT, "us-central1", vpc), subnet=subnet, pods="p", services="q"
            )
        return {}
    for name in ("a", "c"):
        role_of_pods(engine, name)
    there = ExistingVpc(engine, "us-east-1")
    subnets = {"01234567": there.private, "89abcdef": there.public}
    return {
        "111122223333:role": "123456789012:role",
        **{
            f'"subnet-{name}"': ", ".join(f'"{kind[zone]}"' for zone in "ab")
            for name, kind in subnets.items()
        },
    }


def steps(
    engine: CloudEngine, after: dict[str, Any]
) -> Mapping[str, Mapping[tuple[str, str], set[str]]]:
    """Cluster -> type and name of its resources -> the operations that the preview has for them."""
    preview = engine.preview(after, "--json")
    assert preview.code == 0, preview.output[-6_000:]
    found: dict[str, dict[tuple[str, str], set[str]]] = {}
    for step in json.loads(preview.output[preview.output.index("{") :])["steps"]:
        types, _, name = step["urn"].rpartition("::")
        cluster, _, part = name.partition("-")
        kind = types.rpartition("::")[2].rpartition("$")[2]
        found.setdefault(cluster, {}).setdefault((kind, part), set()).add(step["op"])
    return found


def test_a_key_changed_alone_replaces_what_the_plan_says(engine: tuple[str, CloudEngine]) -> None:
    cloud, stack = engine
    make_room(stack, **dict.fromkeys(("elastic_ips", "nat_gateways_per_zone", "vpcs"), 1_000))
    before, after = fleets(cloud, make_named(stack, cloud))
    made = stack.up(before)
    assert made.code == 0, made.output[-6_000:]
    of_cluster, of_pool = KINDS[cloud]
    found = steps(stack, after)
    wrong = {}
    for name, row in rows(cloud).items():
        change = plan.compare(planned(before[name]), planned(after[name]))
        parts = {"cluster": (of_cluster, ""), "system": (of_pool, "system"), "a": (of_pool, "a")}
        # The preview has no step for what stays the same.
        there = found.get(name, {})
        seen = {part for part, key in parts.items() if there.get(key, set()) & REPLACING}
        told = replaced(change)
        if cloud == "gke" and row.key == "system_pool.zones":
            told.remove("system")  # GKE moves it in place, and deletes its nodes itself.
        if seen != told or bool(there) == (row.key in STAYS):
            wrong[row.key] = (sorted(told), sorted(seen), there)
    assert not wrong
