"""The ClusterRole of previews reads every object that the program makes, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slicewright.infra import manifests, plan
from tests.infra.plan.eks.test_karpenter import planned as with_karpenter
from tests.infra.plan.gke.test_gpu_direct import fleet as gpu_networks
from tests.infra.plan.gke.test_gpu_direct import planned as with_gpu_networks
from tests.recorder import recorded
from tests.repository_stacks import STACKS

ROOT = Path(__file__).resolve().parents[3]
PLURALS = {
    "ClusterRules": "clusterrules",
    "EC2NodeClass": "ec2nodeclasses",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "NetworkPolicy": "networkpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}
ALSO_READ = {
    *(("", kind) for kind in ("endpoints", "nodes", "pods")),
    ("apps", "replicasets"),
    ("discovery.k8s.io", "endpointslices"),
    ("nvidia.com", "clusterpolicies"),
    ("slicewright.io", "gpunodereports"),
}
"""What `drift` and `preview-report --live` read beside it, and what a refresh looks at."""


def rules() -> list[dict[str, Any]]:
    (role,) = (one for one in manifests.preview_role()["items"] if one["kind"] == "ClusterRole")
    return list(role["rules"])


def readable() -> Iterator[tuple[str, str]]:
    for rule in rules():
        for group in rule["apiGroups"]:
            yield from ((group, kind) for kind in rule["resources"])


def test_the_preview_role_has_only_reading_verbs() -> None:
    assert {verb for rule in rules() for verb in rule["verbs"]} == {"get", "list"}


def test_the_preview_role_reads_no_secret_and_has_no_wildcard() -> None:
    named = {kind for _, kind in readable()}
    assert not named & {"secrets", "*", "pods/exec", "pods/log", "serviceaccounts/token"}
    assert not [kind for kind in named if "/" in kind]
    assert all(group != "*" for group, _ in readable())


def every_fleet() -> Iterator[plan.FleetPlan]:
    """Together they make whatever the program can make in a cluster."""
    for stack in STACKS:
        fleet = plan.read_file(stack)
        if not isinstance(fleet, plan.ExistingFleetPlan) or fleet.cluster is not None:
            yield fleet
    for file in sorted((ROOT / "tests" / "infra" / "golden").glob("*.yaml")):
        yield plan.read_file(file)
    yield with_karpenter()
    yield with_gpu_networks(gpu_networks())
    managed = {"prometheus": "managed"}
    yield with_gpu_networks(f"{gpu_networks()}monitoring: {json.dumps(managed)}\n")


def plural(kind: str) -> str:
    return PLURALS.get(kind, f"{kind.lower()}s")


def test_the_preview_role_reads_exactly_the_objects_of_the_program() -> None:
    made = {
        (m.type.removeprefix("kubernetes:").partition("/")[0], plural(m.type.rpartition(":")[2]))
        for fleet in every_fleet()
        for m in recorded(fleet, "x")
        if m.type.startswith("kubernetes:") and not m.type.endswith(":Release")
    }
    named = {("" if group == "core" else group, kind) for group, kind in made}
    assert named - set(readable()) == set()
    assert {one for one in readable() if one not in ALSO_READ} - named == set()
