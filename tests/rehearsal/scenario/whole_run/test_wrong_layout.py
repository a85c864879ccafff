"""A GPU that is cut otherwise than declared: its node stays closed, and `up` fails until it is
right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from fleet_controller.api import NODE_CONDITION, STARTUP_TAINT_KEY
from kubeapi import Client
from rehearsal.scenario import faults
from rehearsal.scenario.engine_runs import Engine
from rehearsal.scenario.environment import Environment

pytestmark = [pytest.mark.rehearsal]


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Iterator[Engine]:
    environment = make_environment("wrong")
    stack_file = environment.stack_file("s0")
    text, changed = re.subn(
        r"^( *)cloud: gke$",
        r"\1cloud: gke\n\1verify_timeout_minutes: 1",
        stack_file.read_text(),
        flags=re.M,
    )
    assert changed == 1
    stack_file.write_text(text)
    faults.inject(
        environment, faults.WrongLayout(pool="h100-partition-3g", node=0, gpu=3, profile="1g.10gb")
    )
    engine = Engine(environment, "s0", print)
    assert engine.init().code == 0
    return engine


def _node(engine: Engine) -> dict[str, object]:
    client = Client.from_kubeconfig(next(iter(engine.environment.kubeconfigs().values())))
    (node,) = client.get("/api/v1/nodes", labelSelector="slicewright.io/pool=h100-partition-3g")[
        "items"
    ]
    return dict(node)


def _says_what_is_wrong(text: str) -> bool:
    return "GPU 3" in text and "3g.40gb" in text and "1g.10gb" in text


def test_up_fails_within_its_timeout_and_says_which_gpu_wanted_what_and_has_what(
    engine: Engine,
) -> None:
    outcome = engine.up()
    assert outcome.code != 0
    assert _says_what_is_wrong(outcome.output), outcome.output
    assert outcome.seconds < 60 + 60
    assert "Traceback" not in outcome.output


def test_the_node_keeps_its_taint_and_its_condition_says_why(engine: Engine) -> None:
    node = _node(engine)
    assert [t for t in node["spec"]["taints"] if t["key"] == STARTUP_TAINT_KEY]  # type: ignore[index]
    condition = next(c for c in node["status"]["conditions"] if c["type"] == NODE_CONDITION)  # type: ignore[index]
    assert condition["status"] == "False"
    assert _says_what_is_wrong(condition["message"])


def test_the_next_up_fails_again_without_a_refresh(engine: Engine) -> None:
    outcome = engine.up()
    assert outcome.code != 0
    assert _says_what_is_wrong(outcome.output), outcome.output


def test_and_with_a_refresh_between(engine: Engine) -> None:
    assert engine.refresh().code == 0
    outcome = engine.up()
    assert outcome.code != 0
    assert _says_what_is_wrong(outcome.output), outcome.output


def test_once_the_node_is_right_up_ends_well(engine: Engine) -> None:
    assert faults.repair(engine.environment)
    outcome = engine.up()
    assert outcome.code == 0, outcome.output
    assert not [t for t in _node(engine)["spec"]["taints"] if t["key"] == STARTUP_TAINT_KEY]  # type: ignore[index]


def test_destroy_leaves_nothing(engine: Engine) -> None:
    assert engine.destroy().code == 0
    assert engine.environment.inventory() == {}
