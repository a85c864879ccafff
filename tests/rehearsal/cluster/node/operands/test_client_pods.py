"""What the simulated mig-manager does with the pods of GPU clients, as its version does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slicewright.rehearsal.cluster.node.operands import mig_parted
from slicewright.rehearsal.cluster.node.operands.mig_manager import (
    CONFIG,
    STATE,
    ClientsGone,
    Label,
    MigManager,
    Node,
    writes_failed,
)
from slicewright.rehearsal.cluster.silicon import state

LAYOUTS = mig_parted.parse(
    "version: v1\nmig-configs:\n  seven:\n  - {devices: all, mig-enabled: true, "
    "mig-devices: {1g.10gb: 7}}\n"
)
IMAGE = "nvcr.io/nvidia/cloud-native/k8s-mig-manager"


def labels_after_waiting_in_vain(manager: MigManager, **labels: str) -> dict[str, str]:
    silicon = state.new("H100-80", 1, "580.159.03", "seed")
    node = Node(labels={CONFIG: "seven", **labels}, silicon=silicon)
    steps = manager.reconfigure(node, LAYOUTS)
    step = next(steps)
    try:
        while True:
            match step:
                case Label(labels=changed):
                    node = replace(node, labels={**node.labels, **changed})
                case ClientsGone():
                    node = replace(node, clients_gone=False)
                case _:
                    pytest.fail(f"it goes on with {step}")
            step = steps.send(node)
    except StopIteration:
        return dict(node.labels)


@pytest.mark.parametrize(
    ("version", "state_left"),
    [("v0.15.0", "pending"), ("v0.15.1", "failed"), ("v0.13.1", "pending")],
)
def test_pods_that_do_not_end_leave_the_state_of_its_version(version: str, state_left: str) -> None:
    manager = MigManager(with_reboot=False, writes_failed=writes_failed(f"{IMAGE}:{version}"))
    assert labels_after_waiting_in_vain(manager)[STATE] == state_left


def test_after_a_failure_the_operands_run_again_and_after_pending_they_stay_paused() -> None:
    label = "nvidia.com/gpu.deploy.device-plugin"
    for fails, value in ((True, "true"), (False, "paused-for-mig-change")):
        manager = MigManager(with_reboot=False, writes_failed=fails)
        assert labels_after_waiting_in_vain(manager)[label] == value


def test_clients_of_other_makers_are_paused_only_if_the_node_has_their_label() -> None:
    label, fails = "nvidia.com/gpu.deploy.client", False
    manager = MigManager(with_reboot=False, writes_failed=fails)
    assert label not in labels_after_waiting_in_vain(manager)
    manager = MigManager(with_reboot=False, writes_failed=fails)
    found = labels_after_waiting_in_vain(manager, **{label: "true"})
    assert found[label] == "paused-for-mig-change"


def test_an_image_by_digest_counts_as_the_newest() -> None:
    assert writes_failed(f"{IMAGE}@sha256:{'a' * 64}")
