"""The configuration of Volcano's scheduler against the plan, and nodes whose cards are registered
wrong.
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from slicewright.drift.engine import engine_drift, is_compared
from slicewright.drift.findings import Comparison
from slicewright.drift.reading import read_scheduler_config
from slicewright.drift.silicon import silicon_drift
from slicewright.infra import plan, stack_file
from slicewright.infra.manifests.fractional.volcano import scheduler_config
from slicewright.kubeapi import ApiError, Client
from slicewright.live.objects import UnreadObject
from slicewright.live.reading import ClusterObjects
from tests.slicewright.drift import test_silicon

KEY = "volcano-scheduler.conf"


def fleet(provider: str = "volcano", **settings: Any) -> plan.FleetPlan:
    raw = {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "fractional": {"provider": provider, **settings},
        "node_pools": [
            {
                "name": "a",
                "gpu": {"model": "T4", "count": 4},
                "nodes": {"count": 1},
                "sharing": "fractional",
            }
        ],
    }
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def config(of: plan.FleetPlan, old: str = "", new: str = "") -> dict[str, str]:
    assert of.engine is not None
    return {KEY: scheduler_config(of.engine).replace(old, new)}


def test_only_volcanos_configuration_is_a_separate_object() -> None:
    assert is_compared(fleet())
    assert not is_compared(fleet("hami"))


def test_the_configuration_of_the_plan_has_not_drifted() -> None:
    of = fleet()
    assert list(engine_drift(config(of), of)) == []


@pytest.mark.parametrize("existing", [False, True])
def test_a_policy_that_was_changed_is_named_with_its_command(existing: bool) -> None:
    of = fleet(existing=existing)
    (finding,) = engine_drift(config(of, "SchedulePolicy: spread", "SchedulePolicy: binpack"), of)
    assert finding.comparison is Comparison.ENGINE
    assert finding.where == "ConfigMap volcano-system/volcano-scheduler-configmap"
    assert finding.difference == (
        "deviceshare: wanted deviceshare.SchedulePolicy: spread, found binpack"
    )
    assert finding.heal.startswith("helm -n volcano-system get manifest volcano") is not existing


def test_a_configuration_that_is_gone_is_drift() -> None:
    (finding,) = engine_drift(None, fleet())
    assert finding.difference == "does not exist"


class _Server:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.path = ""

    def get(self, path: str, **query: str) -> Any:
        self.path = path
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "data", "unread"),
    [
        ({"data": {KEY: "a"}}, {KEY: "a"}, 0),
        ({}, {}, 0),
        (ApiError(404, {"message": "gone"}), None, 0),
        ({"data": {KEY: 3}}, None, 1),
    ],
)
def test_the_configuration_is_read_in_the_engines_namespace(
    answer: Any, data: Any, unread: int
) -> None:
    server, odd = _Server(answer), list[UnreadObject]()
    assert read_scheduler_config(cast("Client", server), fleet(namespace="gpus"), odd) == data
    assert server.path == "/api/v1/namespaces/gpus/configmaps/volcano-scheduler-configmap"
    assert len(odd) == unread


@pytest.mark.parametrize(
    ("provider", "heal"),
    [
        ("volcano", "kubectl -n kube-system delete pod -l name=volcano-device-plugin"),
        (
            "hami",
            "kubectl -n hami-system delete pod -l app.kubernetes.io/component=hami-device-plugin",
        ),
    ],
)
def test_a_wrong_registration_names_the_device_plugin_to_restart(provider: str, heal: str) -> None:
    of = fleet(provider)
    (planned,) = of.pools
    said = test_silicon.condition("False", "CardsRegisteredWrong")
    objects = ClusterObjects(
        pools=(
            test_silicon.pool(planned, verified="False", degraded="True", reason="NodesFailing"),
        ),
        most={"a": 1},
        nodes=(test_silicon.node(planned, said),),
        reports={},
        gpus={},
        pods={},
        budgets=(),
        controller=1,
        unread=(),
    )
    (finding,), unseen = silicon_drift(objects, of, "s", test_silicon.NOW)
    assert finding.heal == f"{heal} --field-selector spec.nodeName=n0"
    assert unseen == []
