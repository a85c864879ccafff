"""A time-sliced pool beside a partitioned one, by NVIDIA's own device plugin and config-manager."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kubeapi import Client
from rehearsal.scenario import proof
from rehearsal.scenario.engine_runs import Engine
from rehearsal.scenario.environment import Environment

pytestmark = [pytest.mark.rehearsal]
_POOL = """\
      - name: shared
        machine_type: g5.xlarge
        nodes: { count: 1 }
        sharing: { mode: time-slicing, replicas: { gpu: 4 } }
    gpu_operator:
"""


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Engine:
    environment = make_environment("s1-shared")
    stack_file = environment.stack_file("s1")
    text, changed = re.subn(r"^    gpu_operator:\n", _POOL, stack_file.read_text(), flags=re.M)
    assert changed == 1
    stack_file.write_text(text)
    engine = Engine(environment, "s1", print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def client(engine: Engine) -> Client:
    up = engine.up()
    assert up.code == 0, up.output
    return Client.from_kubeconfig(next(iter(engine.environment.kubeconfigs().values())))


def offered(fleet: Any, pool: str) -> Mapping[str, int]:
    (node,) = (n for n in fleet if n.pool == pool)
    return {name: amount for name, amount in node.allocatable.items() if amount}


def test_each_pool_offers_what_was_declared(client: Client) -> None:
    fleet = proof.read_fleet(client)
    assert offered(fleet, "shared") == {"nvidia.com/gpu": 4}
    assert offered(fleet, "demo-gpu-workers") == {"nvidia.com/mig-1g.5gb": 56}


def test_a_sharing_change_reaches_the_node(client: Client, engine: Engine) -> None:
    stack_file = engine.environment.stack_file("s1")
    stack_file.write_text(stack_file.read_text().replace("gpu: 4", "gpu: 2"))
    up = engine.up()
    assert up.code == 0, up.output
    assert offered(proof.read_fleet(client), "shared") == {"nvidia.com/gpu": 2}


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}
