"""What a stack made is known from Pulumi's state, and without it nothing is concluded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slicewright.doctor import state

TYPE = "aws:eks/cluster:Cluster"
STATE = {
    "deployment": {
        "resources": [
            {"urn": "urn:a", "type": TYPE, "id": "mine"},
            {"urn": "urn:b", "type": "other", "id": "x"},
        ]
    }
}


def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A `pulumi` that does what the script says."""
    program = tmp_path / "pulumi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        (f"echo '{json.dumps(STATE)}'", "yes"),
        ("""echo '{"deployment": {}}'""", "no"),
        ("echo \"error: no stack named 'dev' found\" >&2; exit 255", "no"),
        ("echo 'error: PULUMI_ACCESS_TOKEN must be set' >&2; exit 255", "unknown"),
        ("echo not JSON", "unknown"),
    ],
)
def test_the_state_shows_whether_the_stack_created_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, answer: str
) -> None:
    pulumi(tmp_path, monkeypatch, script)
    assert state.owned("dev", TYPE, "mine") == answer


def test_the_roles_of_a_stack_are_known_by_their_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urn = "urn:pulumi:dev::slicewright::slicewright:index:EksCluster$aws:iam/role:Role::eks-"
    made = [
        {"type": "aws:iam/role:Role", "urn": f"{urn}{part}", "id": f"eks-{part}-0123abc"}
        for part in ("control-plane", "nodes", "ebs-csi")
    ]
    going = {"type": "aws:iam/role:Role", "urn": f"{urn}nodes", "id": "old", "delete": True}
    state_of = {
        "deployment": {"resources": [*made, going, {"urn": "u", "type": TYPE, "id": "mine"}]}
    }
    pulumi(tmp_path, monkeypatch, f"echo '{json.dumps(state_of)}'")
    assert state.role_names("dev") == {
        "control-plane": "eks-control-plane-0123abc",
        "nodes": "eks-nodes-0123abc",
        "ebs-csi": "eks-ebs-csi-0123abc",
    }


@pytest.mark.parametrize("script", ["echo not JSON", "echo no token >&2; exit 255"])
def test_a_state_that_pulumi_does_not_show_names_no_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    pulumi(tmp_path, monkeypatch, script)
    with pytest.raises(state.UnknownState, match="pulumi stack export"):
        state.role_names("dev")


def test_another_cluster_in_the_state_is_not_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulumi(tmp_path, monkeypatch, f"echo '{json.dumps(STATE)}'")
    assert state.owned("dev", TYPE, "x") == "no"


def test_the_state_is_unknown_without_pulumi_or_a_stack_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert state.owned("dev", TYPE, "mine") == "unknown"
    assert state.owned(None, TYPE, "mine") == "unknown"
