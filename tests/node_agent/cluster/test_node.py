from __future__ import annotations

import pytest

from slicewright.apis import names
from slicewright.node_agent.cluster.node import quantity, read


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("16", 16), ("2k", 2000), ("3M", 3_000_000), ("1Ki", 1024), ("2Gi", 2 * 2**30)],
)
def test_quantities_as_the_api_server_shortens_them(text: str, number: int) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize("text", ["", "m", "100m", "1.5", "1e3", "x", "1kk", "iK"])
def test_no_whole_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text differs with the way it is wrong
        quantity(text)


def test_only_extended_resources_are_read() -> None:
    capacity = {
        "cpu": "95690m",
        "memory": "1167644256Ki",
        "pods": "250",
        "nvidia.com/mig-1g.5gb": "56",
    }
    node = read(
        {
            "metadata": {"name": "n", "uid": "u"},
            "status": {"capacity": capacity, "nodeInfo": {"bootID": "b"}},
        }
    )
    assert (node.capacity, node.allocatable, node.boot_id) == (
        {"nvidia.com/mig-1g.5gb": 56},
        {},
        "b",
    )


def test_only_labels_about_gpus_are_read() -> None:
    """gfd.timestamp changes every minute."""
    product = {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/mig-1g.10gb.me.count": "1"}
    others = {"nvidia.com/gfd.timestamp": "1", "nvidia.com/gpu.memory": "15360", "a": "b"}
    node = read({"metadata": {"name": "n", "uid": "u", "labels": {**product, **others}}})
    assert node.feature_labels == product


def test_controllers_annotations_are_read() -> None:
    notes = {"slicewright.io/desired-state": "{}", "slicewright.io/reports-after": "then"}
    node = read({"metadata": {"name": "n", "uid": "u", "annotations": notes}})
    assert (node.assigned, node.reports_after) == ("{}", "then")
    assert (node.assigned, node.reports_after) == tuple(
        notes[name] for name in (names.DESIRED_ANNOTATION, names.REPORTS_AFTER_ANNOTATION)
    ), "as the controller writes them"
    silent = read({"metadata": {"name": "n", "uid": "u"}})
    assert (silent.assigned, silent.reports_after) == ("", "")


def test_a_node_just_born_has_nothing() -> None:
    node = read({"metadata": {"name": "n", "uid": "u"}})
    assert (node.capacity, node.allocatable, node.boot_id, node.mig_state) == ({}, {}, "", "")
