"""What Pulumi's previews say has drifted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.drift.findings import Comparison, Finding
from slicewright.drift.resources import cloud_drift, pending_creations, program_drift, value_at
from slicewright.preview.steps import read_preview

URN = "urn:pulumi:dev::tiny::slicewright:index:GkeCluster$gcp:container/nodePool:NodePool::gke-a"
WHERE = "gcp:container/nodePool:NodePool gke-a"


def preview(*steps: dict[str, Any], **more: Any) -> Any:
    return read_preview(json.dumps({"steps": [{"urn": URN, **step} for step in steps], **more}))


def resized(op: str = "update") -> dict[str, Any]:
    """As `pulumi refresh --preview-only --json` prints it of a pool that somebody has resized."""
    return {
        "op": op,
        "oldState": {"id": "i", "inputs": {"nodeCount": 2}, "outputs": {"nodeCount": 2}},
        "newState": {"id": "i", "inputs": {"nodeCount": 1}, "outputs": {"nodeCount": 1}},
        "detailedDiff": {"nodeCount": {"kind": "update", "inputDiff": True}},
    }


def test_a_value_that_the_cloud_has_changed_is_shown_with_both() -> None:
    findings, unseen = cloud_drift(preview(resized(), {"op": "refresh"}), "dev")
    assert unseen == []
    assert findings == [
        Finding(
            comparison=Comparison.CLOUD,
            where=WHERE,
            difference="nodeCount: 2 → 1",
            heal="pulumi up --refresh --stack dev",
        )
    ]


@pytest.mark.parametrize(
    ("op", "of_cloud", "of_program"),
    [
        (
            "delete",
            "is in the state, but not in the cloud",
            "is no longer declared, but still exists",
        ),
        ("create", "differs", "is declared, but was not created"),
        ("replace", "differs (would be replaced)", "differs (would be replaced)"),
    ],
)
def test_a_missing_resource_is_reported_for_the_side_that_lacks_it(
    op: str, of_cloud: str, of_program: str
) -> None:
    found = preview({"op": op, "oldState": {"id": "i"}})
    ((cloud,), _), ((program,), _) = cloud_drift(found, "dev"), program_drift(found, "dev")
    assert (cloud.difference, program.difference) == (of_cloud, of_program)
    assert program.heal == "pulumi up --stack dev"


def test_an_unchanged_resource_is_no_drift() -> None:
    assert program_drift(preview({"op": "same"}), "dev") == ([], [])


@pytest.mark.parametrize(
    ("ignored", "drifted"),
    [
        ("scalingConfig.desiredSize", False),
        ("scalingConfig", False),
        ("scalingConfig.desired", True),
        ("scalingConfig.maxSize", True),
    ],
)
def test_a_property_that_the_program_ignores_is_no_drift(ignored: str, drifted: bool) -> None:
    step = resized() | {"detailedDiff": {"scalingConfig.desiredSize": {"kind": "update"}}}
    step["oldState"] = {**step["oldState"], "ignoreChanges": [ignored]}
    findings, _ = cloud_drift(preview(step), "dev")
    assert bool(findings) is drifted


def test_a_preview_that_failed_is_no_proof_of_anything() -> None:
    failed = preview(diagnostics=[{"severity": "error", "message": "error: no\n  credentials"}])
    findings, (unseen,) = program_drift(failed, "dev")
    assert findings == []
    assert (unseen.comparison, unseen.why) == (Comparison.PROGRAM, "no credentials")


def test_secrets_and_whole_objects_are_not_shown() -> None:
    secret = {"4dabf18193072939515e22adb298388d": "1b47", "ciphertext": "v1:abc"}
    step = resized() | {
        "oldState": {"inputs": {"nodeCount": secret}},
        "newState": {"inputs": {"nodeCount": {**secret, "ciphertext": "v1:def"}}},
    }
    ((finding,), _) = program_drift(preview(step), "dev")
    assert finding.difference == "nodeCount: … → …"


def test_only_the_first_of_many_changed_fields_are_named() -> None:
    differs = {f"f{n}": {"kind": "update"} for n in range(9)}
    ((finding,), _) = program_drift(preview({"op": "update", "detailedDiff": differs}), "dev")
    assert finding.difference == "f0; f1; f2; f3; f4; f5; and 3 more"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b", 1),
        ("list[1].c", 2),
        ('labels["k8s.io/x"]', 3),
        ("list[7].c", None),
        ("a.b.c", None),
        ("nothing", None),
    ],
)
def test_a_property_path_leads_to_its_value(path: str, value: int | None) -> None:
    known = {"a": {"b": 1}, "list": [{}, {"c": 2}], "labels": {"k8s.io/x": 3}}
    assert value_at(known, path) == value


def test_a_creation_that_was_cut_off_is_not_compared() -> None:
    (unseen,) = pending_creations([URN], "dev")
    assert unseen.comparison is Comparison.CLOUD
    assert unseen.remedy == "slicewright recover --stack dev"
