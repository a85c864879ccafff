"""Every key of a pool, changed alone, through the real engine: the clouds accept both values, and
nodes are lost exactly where `plan --diff` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from slicewright.infra import plan
from slicewright.infra.plan import ChangeEffect
from slicewright.rehearsal.clouds.aws.account import ORDINARY_VCPUS
from slicewright.rehearsal.clouds.core import call_log
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import PROJECT, CloudEngine, cloud_engine
from tests.infra.google_project import let_gke_make_networks
from tests.infra.plan.test_change_keys import ROWS, Row, planned, written
from tests.rights_used import not_allowed

pytestmark = pytest.mark.long(
    "the same in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)

OF_POOL = {"gke": "cloud.google.com/gke-nodepool", "eks": "eks.amazonaws.com/nodegroup"}
WHERE: Mapping[str, dict[str, Any]] = {
    "gke": {},
    # The row of release_version has one of 1.34.
    "eks": {"cluster.zones": ["us-east-1a", "us-east-1c"], "cluster.version": "1.34"},
}
REPLACING = {"replace", "create-replacement", "delete-replaced"}


def alone(row: Row) -> bool:
    """Whether the row changes its pool only, in a way that another cloud's rules do not forbid."""
    paths = {*row.before, *row.after}
    return bool(row.effect) and all(path.startswith("node_pools.0.") for path in paths)


def rows(cloud: str) -> Mapping[str, Row]:
    """Name of a pool -> what is changed of it."""
    return {f"p{i:02}": row for i, row in enumerate(r for r in ROWS[cloud] if alone(r))}


def fleets(cloud: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """One pool per key, before and after."""
    both = []
    for changes in (lambda row: (row.before,), lambda row: (row.before, row.after)):
        pools = []
        for name, row in rows(cloud).items():
            (pool,) = written(cloud, *changes(row))["node_pools"]
            pools.append(pool | {"name": name})
        both.append(written(cloud, WHERE[cloud]) | {"node_pools": pools})
    return both[0], both[1]


@pytest.fixture(params=["gke", "eks"])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> Iterator[tuple[str, CloudEngine]]:
    with cloud_engine(tmp_path_factory.mktemp(request.param), toolchain) as engine:
        yield request.param, engine


def nodes_of(engine: CloudEngine, cloud: str) -> Mapping[str, set[str]]:
    """Pool -> the machines of its nodes."""
    found: dict[str, set[str]] = {}
    for node in engine.nodes("c"):
        pool = node["metadata"]["labels"][OF_POOL[cloud]]
        found.setdefault(pool, set()).add(node["spec"]["providerID"])
    return found


def told(cloud: str, before: dict[str, Any], after: dict[str, Any]) -> Mapping[str, ChangeEffect]:
    compared = plan.compare(planned(before), planned(after)).pools
    return {pool.name: pool.effect for pool in compared}


def make_room(engine: CloudEngine, **quotas: int) -> None:
    """In the AWS account: quota for all nodes and node groups, the machine types of the rows in
    zones a and b, and the reservations that the rows name; quotas: more of them. In Google's
    project: a role for GKE's service agent.
    """
    let_gke_make_networks(engine.cloud, PROJECT)
    zones = engine.cloud.call("ec2", "DescribeAvailabilityZones", {"region": "us-east-1"}, {})
    there = {z["ZoneName"][-1]: z["ZoneId"] for z in zones["AvailabilityZones"]}
    ids = {f"us-east-1{zone}": there[other] for zone, other in zip("abce", "ceab", strict=True)}
    reserved = {"instance_type": "p4d.24xlarge", "zone": ids["us-east-1a"], "count": 9}
    engine.account(
        zones=ids,
        vcpus=dict.fromkeys(ORDINARY_VCPUS, 1_000_000),
        node_groups=1_000,
        **quotas,
        reservations={f"cr-0123456789abcdef{i}": reserved for i in range(2)},
    )


def clean(engine: CloudEngine, fleet: dict[str, Any]) -> None:
    engine.assert_settled(fleet)


def test_each_key_alone_is_accepted_and_does_to_nodes_what_the_plan_says(
    engine: tuple[str, CloudEngine],
) -> None:
    cloud, stack = engine
    make_room(stack)
    earlier = len(call_log.read(stack.directory.parent))
    there_before = stack.cloud.inventory()
    before, after = fleets(cloud)
    made = stack.up(before)
    assert made.code == 0, made.output
    clean(stack, before)
    there = nodes_of(stack, cloud)
    expected, found = told(cloud, before, after), stack.operations(after)
    for name, row in rows(cloud).items():
        operations = found.get(f"{cloud}-{name}", {"same"})
        # GKE moves a pool to another zone in place, and deletes its nodes itself.
        moved = cloud == "gke" and row.key == "node_pools.zones"
        replaced = expected[name] is ChangeEffect.REPLACE and not moved
        assert bool(operations & REPLACING) == replaced, (row.key, operations)
    changed = stack.up(after)
    assert changed.code == 0, changed.output
    clean(stack, after)
    now = nodes_of(stack, cloud)
    for name, row in rows(cloud).items():
        old, new = there.get(name, set()), now.get(name, set())
        if expected[name] <= ChangeEffect.IN_PLACE:
            assert old <= new or new <= old, (row.key, "nodes were lost")
        if expected[name] is ChangeEffect.REPLACE:
            assert not old & new, (row.key, "nodes stayed")
    gone = stack.destroy()
    assert gone.code == 0, gone.output
    assert stack.cloud.inventory() == there_before
    calls = call_log.read(stack.directory.parent)[earlier:]
    assert not_allowed([planned(before), planned(after)], calls) == []
