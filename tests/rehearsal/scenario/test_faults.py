"""Faults and reboots as the user, the simulated cloud and the kubelet read and change them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from slicewright.infra import plan
from slicewright.kubeapi import Client, Unreachable
from slicewright.rehearsal.clouds.core.faults import Faults
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds, holds_of
from slicewright.rehearsal.scenario import faults
from slicewright.rehearsal.scenario.environment import PROJECT, Environment
from slicewright.rehearsal.scenario.errors import NoSuchFault, RehearsalError


class NoAnswer:
    def get(self, *_: Any, **__: Any) -> NoReturn:
        raise Unreachable("connection refused")


def test_repair_names_a_cluster_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = tmp_path / "clusters" / "dev"
    cluster.mkdir(parents=True)
    (cluster / "kubeconfig.json").write_text("{}")
    monkeypatch.setattr(Client, "from_kubeconfig", lambda path: NoAnswer())
    with pytest.raises(RehearsalError, match=r"cluster dev .* does not answer"):
        faults.repair(Environment(tmp_path))


def test_a_node_that_is_not_there_cannot_be_rebooted(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFault, match=r"node n1: .* has no such node"):
        faults.reboot(Environment(tmp_path), "n1")


def test_a_node_that_does_not_run_cannot_be_rebooted(tmp_path: Path) -> None:
    (tmp_path / "clusters/c/nodes/n1/root").mkdir(parents=True)
    with pytest.raises(RehearsalError, match="node n1 does not run"):
        faults.reboot(Environment(tmp_path), "n1")


class OneNode:
    """An API server with one Node."""

    def __init__(self, machine: dict[str, Any]) -> None:
        self.annotations = {faults.MACHINE: json.dumps(machine)}

    def get(self, path: str, **_: Any) -> dict[str, Any]:
        assert path == "/api/v1/nodes/n1"
        return {"metadata": {"name": "n1", "annotations": self.annotations}}

    def patch(self, path: str, body: dict[str, Any], **_: Any) -> None:
        assert path == "/api/v1/nodes/n1"
        self.annotations |= body["metadata"]["annotations"]


def test_cloud_and_kubelet_read_an_injected_hold(tmp_path: Path) -> None:
    held = Holds(pods=("nvidia-mig-manager",), driver=True, toolkit=True, partitioning_from=4)
    faults.inject(Environment(tmp_path), faults.Hold(pool="p", node=1, held=held))
    read = Faults(tmp_path / "faults.json", Store(tmp_path / "state.json"))
    assert read.node_fault(pool="p", labels={}, index=0) is None
    fault = read.node_fault(pool="p", labels={}, index=1)
    annotations = {faults.MACHINE: json.dumps({"cloud": "gke", "fault": fault})}
    assert holds_of({"metadata": {"annotations": annotations}}) == held


def test_hold_on_a_running_node_can_be_changed_and_released() -> None:
    api = OneNode({"cloud": "eks", "fault": {"kind": "hold", "driver": True}})
    faults.hold(cast(Client, api), "n1", Holds(toolkit=True))
    assert holds_of(api.get("/api/v1/nodes/n1")) == Holds(toolkit=True)
    faults.hold(cast(Client, api), "n1", None)
    assert json.loads(api.annotations[faults.MACHINE]) == {"cloud": "eks"}


def test_nodes_of_an_existing_cluster_cannot_be_made_wrong() -> None:
    fleet = plan.read_file(PROJECT / "stacks" / "Pulumi.existing-a100-t4.yaml")
    wrong = faults.WrongLayout(pool="a100-40gb", node=0, gpu=0, profile="1g.5gb")
    with pytest.raises(NoSuchFault, match="were there before the fault"):
        faults.resolve(wrong, fleet)
