"""What the scheduler's rules say of a node that does not exist yet."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from slicewright.rehearsal.clouds.core.pod_fit import (
    SchedulableNode,
    amount,
    empty_node,
    placed,
    requests,
)

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
NODE = SchedulableNode(
    labels={"zone": "a", "memory": "80"},
    taints=(),
    free={"cpu": Decimal(4), "pods": Decimal(10), "nvidia.com/gpu": Decimal(2)},
)


def pod(*requested: dict[str, Any], **spec: Any) -> dict[str, Any]:
    containers = [{"resources": {"requests": r}} for r in requested]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", "0.5"), ("2Gi", "2147483648"), ("1e3", "1000"), ("3", "3"), ("1.5k", "1500")],
)
def test_quantities_are_read_as_kubernetes_writes_them(text: str, number: str) -> None:
    assert amount(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "2GB", "one", "m"])
def test_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        amount(text)


def test_requests_are_summed_and_an_init_container_may_need_more() -> None:
    asked = pod(
        {"cpu": "1"},
        {"cpu": "500m"},
        initContainers=[
            {"resources": {"requests": {"cpu": "4"}}},
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        ],
        overhead={"memory": "1Mi"},
    )
    assert requests(asked) == {"pods": 1, "cpu": 4, "memory": 1048576}


def test_a_limit_is_the_request_of_an_extended_resource() -> None:
    asked = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
    assert requests(asked) == {"pods": 1, "nvidia.com/gpu": 1}


def test_pods_fill_a_node_until_a_resource_ends() -> None:
    one = pod({"nvidia.com/gpu": "1"})
    first = placed(one, NODE)
    assert first is not None
    second = placed(one, first)
    assert second is not None
    assert second.free["nvidia.com/gpu"] == 0
    assert placed(one, second) is None
    assert placed(pod({"nvidia.com/mig-1g.5gb": "1"}), NODE) is None


def requiring(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [e]} for e in expressions]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"affinity": requiring({"key": "zone", "operator": "In", "values": ["b", "a"]})}, True),
        ({"affinity": requiring({"key": "zone", "operator": "NotIn", "values": ["a"]})}, False),
        ({"affinity": requiring({"key": "none", "operator": "Exists"})}, False),
        ({"affinity": requiring({"key": "none", "operator": "DoesNotExist"})}, True),
        ({"affinity": requiring({"key": "memory", "operator": "Gt", "values": ["79"]})}, True),
        ({"affinity": requiring({"key": "memory", "operator": "Lt", "values": ["80"]})}, False),
        # One of several terms is enough.
        (
            {
                "affinity": requiring(
                    {"key": "none", "operator": "Exists"}, {"key": "zone", "operator": "Exists"}
                )
            },
            True,
        ),
    ],
)
def test_selectors_and_affinity_are_those_of_the_nodes_labels(
    spec: dict[str, Any], fits: bool
) -> None:
    assert (placed(pod(**spec), NODE) is not None) is fits


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        (None, False),
        ({"operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "value": "absent"}, False),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_taints_keep_pods_away_that_do_not_tolerate_them(
    toleration: dict[str, str] | None, fits: bool
) -> None:
    room = SchedulableNode(labels={}, taints=[GPU_TAINT], free=NODE.free)
    asked = pod(tolerations=[toleration] if toleration else [])
    assert (placed(asked, room) is not None) is fits


def test_a_startup_taint_is_expected_to_go_and_gpus_are_expected_to_come() -> None:
    startup = "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"
    node = {
        "metadata": {"labels": {}},
        "spec": {"taints": [GPU_TAINT, {**GPU_TAINT, "key": startup}]},
        "status": {"allocatable": {"cpu": "3920m"}},
    }
    room = empty_node(node, gpus={"nvidia.com/gpu": Decimal(16)})
    assert room.taints == [GPU_TAINT]
    assert room.free == {"cpu": Decimal("3.92"), "nvidia.com/gpu": 16}
