"""`slicewright rights`: a document for the cloud's own commands, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
import yaml

from infra import spec
from slicewright import cli

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_of_eks_the_output_is_a_policy_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rights", "-s", "s1"]) == cli.PROVEN
    policy = json.loads(capsys.readouterr().out)
    assert policy.keys() == {"Version", "Statement"}
    assert all(one["Effect"] == "Allow" for one in policy["Statement"])


def test_of_gke_the_output_is_a_custom_role(capsys: pytest.CaptureFixture[str]) -> None:
    """The keys of IAM's Role that a file for `gcloud iam roles create` may have."""
    assert cli.main(["rights", "-s", "s0"]) == cli.PROVEN
    role = json.loads(capsys.readouterr().out)
    assert role.keys() == {"title", "description", "stage", "includedPermissions"}
    assert len(role["includedPermissions"]) == len({*role["includedPermissions"]})


@pytest.mark.parametrize("stack", ["s0", "s1"])
def test_json_tells_what_needs_each_right_and_why(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["rights", "-s", stack]) == cli.PROVEN
    document = json.loads(capsys.readouterr().out)
    assert cli.main(["rights", "-s", stack, "--json"]) == cli.PROVEN
    told = json.loads(capsys.readouterr().out)
    assert told["version"] == 1
    assert told["document"] == document
    assert (told["condition"] is None) == (told["cloud"] == "eks")
    assert all(
        one.keys() == {"right", "type", "operation", "why", "source"} for one in told["rights"]
    )


def test_a_preview_needs_less(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rights", "-s", "s0"]) == cli.PROVEN
    everything = {*json.loads(capsys.readouterr().out)["includedPermissions"]}
    assert cli.main(["rights", "-s", "s0", "--preview"]) == cli.PROVEN
    assert {*json.loads(capsys.readouterr().out)["includedPermissions"]} < everything


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name one stack"),
        (["-s", "s0", "-s", "s1"], "name one stack"),
        (["-s", "s4"], "stacks/Pulumi.s4.yaml: its cluster or hosts exist without this program"),
        (["-s", "missing"], "Pulumi.missing.yaml"),
    ],
)
def test_wrong_use_leaves_stdout_empty(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["rights", *arguments]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_of_what_cannot_be_built_yet_no_rights_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.shares.yaml"
    file.write_text(
        """\
config:
  gcp:project: p
  slicewright:fleet:
    cloud: gke
    cluster: { name: main, location: us-central1-a }
    node_pools:
      - name: a100
        machine_type: a2-highgpu-1g
        nodes: { count: 1 }
        sharing: fractional
        image_type: UBUNTU_CONTAINERD
    fractional: { provider: hami }
"""
    )
    assert cli.main(["rights", str(file)]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert "a scheduler for fractional GPUs" in err
    assert "this version cannot build it yet" in err


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        (0, ""),
        (60, "a managed policy takes 6144: give it to the role that runs Pulumi as an inline"),
        (200, "a role takes 10240 of inline policies: divide its statements"),
    ],
)
def test_of_a_policy_that_is_too_long_it_is_said_where_it_goes(
    roles: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = yaml.safe_load((ROOT / "stacks" / "Pulumi.s1.yaml").read_text())
    raw["config"]["slicewright:fleet"]["cluster"]["pod_identities"] = [
        {
            "namespace": "ai",
            "service_account": f"trainer-{n}",
            "role": f"arn:aws:iam::111122223333:role/trainer-{n}",
        }
        for n in range(roles)
    ]
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(yaml.safe_dump(raw))
    assert cli.main(["rights", str(file)]) == cli.PROVEN
    out, err = capsys.readouterr()
    assert json.loads(out)["Statement"]
    assert said in err
    assert bool(err) is bool(said)


def test_the_stack_file_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(spec, "read", wraps=spec.read) as read:
        assert cli.main(["rights", "-s", "s1"]) == cli.PROVEN
    assert read.call_count == 1
    assert capsys.readouterr().out
