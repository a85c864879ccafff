"""What NFD takes back from the nodes when it is uninstalled."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.cluster.feature_discovery import objects, prune


class Nodes:
    def __init__(self, *nodes: dict[str, Any]) -> None:
        self.nodes = nodes
        self.patches: dict[str, Any] = {}

    def get(self, path: str) -> dict[str, Any]:
        return {"items": self.nodes}

    def patch(self, path: str, patch: Any) -> None:
        self.patches[path] = patch


def node(name: str, labels: dict[str, str], noted: str | None) -> dict[str, Any]:
    annotations = {"mine": "1"} if noted is None else {"mine": "1", objects.OWNED: noted}
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}}


def test_prune_removes_only_recorded_labels_and_their_annotation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    labels = {"nvidia.com/gpu.product": "T4", "nvidia.com/gpu.present": "true", "tier": "gpu"}
    client: Any = Nodes(node("gpu", labels, "nvidia.com/gpu.product"), node("other", {}, None))
    assert prune.prune(client) == 1
    assert client.patches == {
        "/api/v1/nodes/gpu": {
            "metadata": {
                "labels": {"nvidia.com/gpu.product": None},
                "annotations": {objects.OWNED: None},
            }
        }
    }
    assert "pruned node gpu" in capsys.readouterr().out


def test_empty_annotation_is_removed() -> None:
    patch = objects.taken_back(node("n", {}, ""))
    assert patch == {"labels": {}, "annotations": {objects.OWNED: None}}
