"""The demand of Kubernetes manifests: pods times the devices that each requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewright.infra.plan.demand.manifests import BadManifests, classes_of

MANIFESTS = """
apiVersion: apps/v1
kind: Deployment
metadata: { name: chat }
spec:
  replicas: 3
  template:
    spec:
      containers:
        - { name: model, resources: { limits: { nvidia.com/mig-3g.40gb: 2 } } }
        - { name: proxy, resources: { limits: { cpu: 1 } } }
---
apiVersion: v1
kind: List
items:
  - apiVersion: batch/v1
    kind: CronJob
    metadata: { name: nightly }
    spec:
      jobTemplate:
        spec:
          parallelism: 4
          template:
            spec:
              containers: [{ name: train, resources: { limits: { nvidia.com/gpu: "2" } } }]
  - apiVersion: v1
    kind: Pod
    metadata: { name: both }
    spec:
      containers:
        - { name: a, resources: { limits: { nvidia.com/mig-1g.10gb: 1 } } }
        - { name: b, resources: { limits: { nvidia.com/mig-1g.10gb.me: 1 } } }
---
apiVersion: v1
kind: Service
metadata: { name: chat }
"""


def test_each_workload_is_a_class_of_its_devices(tmp_path: Path) -> None:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps/all.yaml").write_text(MANIFESTS)
    (tmp_path / "README.md").write_text("kind: {{ no YAML")
    assert classes_of(tmp_path) == [
        {"name": "both-1g-10gb", "replicas": 1, "profiles": ["1g.10gb"]},
        {"name": "both-1g-10gb-me", "replicas": 1, "profiles": ["1g.10gb+me"]},
        {"name": "chat", "replicas": 6, "profiles": ["3g.40gb"]},
        {"name": "nightly", "replicas": 4, "gpus": 2},
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ template", "render templates first"),
        ("{ kind: Pod, spec: { containers: [3] } }", "no valid Kubernetes manifest"),
        ("kind: Service", "no manifest requests nvidia.com/gpu"),
        (MANIFESTS + "---" + MANIFESTS, "has a manifest already"),
    ],
)
def test_manifests_without_a_clear_demand_are_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "all.yaml").write_text(text)
    with pytest.raises(BadManifests, match=reason):
        classes_of(tmp_path)


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadManifests, match=r"nowhere: is no directory"):
        classes_of(tmp_path / "nowhere")
