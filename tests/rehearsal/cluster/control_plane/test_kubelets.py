"""What a kubelet of a rehearsal may write: what one of a real cluster may."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.kubeapi import ApiError, Client
from slicewright.rehearsal.cluster.control_plane.kubelets import kubelet_of

NODES = "/api/v1/nodes"
TAINT = {"key": "example.org/held", "effect": "NoSchedule"}


@pytest.fixture
def kubelet(cluster: Any) -> Client:
    """Of a node that it has registered, with a taint; there is another one."""
    own = kubelet_of(cluster.admin, "own")
    for name in ("own", "other"):
        kubelet_of(cluster.admin, name).create(
            NODES, {"metadata": {"name": name}, "spec": {"taints": [TAINT]}}
        )
    return own


def test_a_kubelet_writes_its_own_status_and_no_taint_and_no_other_node(
    cluster: Any, kubelet: Client
) -> None:
    capacity = {"status": {"capacity": {"example.org/gpu": "1"}}}
    assert kubelet.patch(f"{NODES}/own/status", capacity)
    restricted = {"metadata": {"labels": {"node-restriction.kubernetes.io/tenant": "a"}}}
    for path, patch, words in (
        (f"{NODES}/own", {"spec": {"taints": None}}, "is not allowed to modify taints"),
        (f"{NODES}/own", restricted, "is not allowed to modify labels"),
        (f"{NODES}/other/status", capacity, "is not allowed to modify node"),
    ):
        with pytest.raises(ApiError, match=words) as refused:
            kubelet.patch(path, patch)
        assert refused.value.status == 403
        assert cluster.admin.patch(path, patch, dryRun="All")
    for name in ("own", "other"):
        cluster.admin.delete(f"{NODES}/{name}")
