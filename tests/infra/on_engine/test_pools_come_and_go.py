"""A pool is added, moved to another zone and removed, through the real engine: the nodes of the
others stay, as `plan --diff` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.infra import plan
from slicewright.infra.plan import ChangeEffect
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import REGION, CloudEngine, cloud_engine
from tests.infra.on_engine.test_every_key import clean, nodes_of
from tests.infra.plan.test_change_keys import planned

Pools = list[dict[str, Any]]
NATIVE = {"mode": "native", "profile": "1g.5gb"}


def pool(cloud: str, name: str, zone: str) -> dict[str, Any]:
    place = {"gke": "us-central1-", "eks": REGION}[cloud]
    machine = {
        "gke": {
            "machine_type": "a2-highgpu-1g",
            "partition": {"mode": "native", "profile": "1g.5gb"},
        },
        "eks": {"machine_type": "g6.xlarge"},
    }[cloud]
    return {"name": name, "zones": [f"{place}{zone}"], "nodes": {"count": 1}, **machine}


def fleet(cloud: str, pools: Pools) -> dict[str, Any]:
    where = {
        "gke": {"location": "us-central1"},
        "eks": {"region": REGION, "zones": [f"{REGION}a", f"{REGION}b"]},
    }[cloud]
    return {"cloud": cloud, "cluster": {"name": "c", **where}, "node_pools": pools}


@pytest.fixture(
    params=[
        pytest.param(
            "gke",
            marks=pytest.mark.long("on EKS: tests/infra/on_engine/test_pools_come_and_go.py"),
        ),
        "eks",
    ]
)
def stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> Iterator[tuple[str, CloudEngine]]:
    with cloud_engine(tmp_path_factory.mktemp(request.param), toolchain) as engine:
        yield request.param, engine


def test_adding_moving_and_removing_a_pool_keeps_the_nodes_of_others(
    stack: tuple[str, CloudEngine],
) -> None:
    cloud, engine = stack
    # In zones that both clouds have the machine type in.
    here, there = ("c", "f") if cloud == "gke" else ("a", "b")
    one, two, third = (pool(cloud, name, here) for name in ("one", "two", "third"))
    now = fleet(cloud, [one, two])
    engine.deploy(now)
    for changed, touched in (
        (fleet(cloud, [third, one, two]), "third"),
        (fleet(cloud, [third, one, pool(cloud, "two", there)]), "two"),
        (fleet(cloud, [third, pool(cloud, "two", there)]), "one"),
    ):
        said = {
            part.name
            for part in plan.compare(planned(now), planned(changed)).pools
            if part.effect is not ChangeEffect.NONE
        }
        assert said == {touched}
        before = nodes_of(engine, cloud)
        engine.deploy(changed)
        after = nodes_of(engine, cloud)
        assert {n: nodes for n, nodes in after.items() if n != touched} == {
            n: nodes for n, nodes in before.items() if n != touched
        }
        assert not before.get(touched, set()) & after.get(touched, set())
        clean(engine, changed)
        now = changed
