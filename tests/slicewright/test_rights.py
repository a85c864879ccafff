"""`slicewright rights`: a document for the cloud's own commands, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
import yaml

from slicewright import cli
from slicewright.infra import stack_file

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_rights_for_eks_are_a_policy_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rights", "-s", "eks-a100"]) == cli.VERIFIED
    policy = json.loads(capsys.readouterr().out)
    assert policy.keys() == {"Version", "Statement"}
    assert all(one["Effect"] == "Allow" for one in policy["Statement"])


def test_rights_for_gke_are_a_custom_role(capsys: pytest.CaptureFixture[str]) -> None:
    """The keys of IAM's Role that a file for `gcloud iam roles create` may have."""
    assert cli.main(["rights", "-s", "gke-h100"]) == cli.VERIFIED
    role = json.loads(capsys.readouterr().out)
    assert role.keys() == {"title", "description", "stage", "includedPermissions"}
    assert len(role["includedPermissions"]) == len({*role["includedPermissions"]})


@pytest.mark.parametrize("stack", ["gke-h100", "eks-a100"])
def test_json_has_the_user_and_the_reason_of_each_right(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["rights", "-s", stack]) == cli.VERIFIED
    document = json.loads(capsys.readouterr().out)
    assert cli.main(["rights", "-s", stack, "--json"]) == cli.VERIFIED
    told = json.loads(capsys.readouterr().out)
    assert told["version"] == 1
    assert told["document"] == document
    assert (told["condition"] is None) == (told["cloud"] == "eks")
    assert all(
        one.keys() == {"right", "type", "operation", "why", "source"} for one in told["rights"]
    )


def test_a_preview_needs_less(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rights", "-s", "gke-h100"]) == cli.VERIFIED
    everything = {*json.loads(capsys.readouterr().out)["includedPermissions"]}
    assert cli.main(["rights", "-s", "gke-h100", "--preview"]) == cli.VERIFIED
    assert {*json.loads(capsys.readouterr().out)["includedPermissions"]} < everything


AUTOSCALED = """\
config:
  slicewright:fleet:
    cloud: eks
    cluster: {{ name: main, region: us-west-2, version: "1.36", autoscaler: {mode}{more} }}
    node_pools:
      - name: l4
        machine_type: g6.xlarge
        nodes: {{ min: 0, max: 1 }}
        release_version: 1.36.0-20260714
"""
BOUNDARY = "arn:aws:iam::111122223333:policy/boundary"


def autoscaled(directory: Path, mode: str, more: str = "") -> str:
    file = directory / "Pulumi.main.yaml"
    file.write_text(AUTOSCALED.format(mode=mode, more=more))
    return str(file)


@pytest.mark.parametrize("mode", ["cluster-autoscaler", "karpenter"])
def test_an_autoscaler_without_a_boundary_gets_no_policy_that_makes_an_administrator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    file = autoscaled(tmp_path, mode)
    assert cli.main(["rights", file]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert "cluster.autoscaler needs iam:PutRolePolicy, which makes its holder an admin" in err
    assert f"`slicewright rights {file} --boundary`" in err
    assert cli.main(["rights", file, "--preview"]) == cli.VERIFIED, "it changes no role"
    bounded = autoscaled(tmp_path, mode, f", permissions_boundary: '{BOUNDARY}'")
    assert cli.main(["rights", bounded]) == cli.VERIFIED
    assert "iam:PutRolePolicy" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["cluster-autoscaler", "karpenter"])
def test_the_boundary_is_a_managed_policy_and_names_no_right_to_change_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    assert cli.main(["rights", autoscaled(tmp_path, mode), "--boundary"]) == cli.VERIFIED
    out, err = capsys.readouterr()
    assert err == ""
    named = json.dumps(json.loads(out))
    assert len(json.dumps(json.loads(out), separators=(",", ":"))) <= 6144
    for right in ("iam:*", "iam:CreateRole", "iam:PutRolePolicy", "sts:", "eks:Create"):
        assert right not in named


def test_a_stack_of_an_earlier_version_gets_the_names_that_its_roles_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {"nodes": "eks-nodes-0123abc", "control-plane": "eks-control-plane-0123abc"}
    with mock.patch("slicewright.doctor.state.role_names", return_value=names) as asked:
        assert cli.main(["rights", "-s", "eks-a100", "--state"]) == cli.VERIFIED
    asked.assert_called_once_with("eks-a100")
    (passing,) = (
        one
        for one in json.loads(capsys.readouterr().out)["Statement"]
        if "iam:PassRole" in one["Action"]
    )
    assert passing["Resource"] == [
        f"arn:aws:iam::*:role/{name}"
        for name in ("eks-control-plane-0123abc", "eks-nodes-0123abc", f"{EKS_A100}.*")
    ]


@pytest.mark.parametrize("stack", ["gke-h100", "eks-a100", "existing-a100-t4"])
def test_the_role_for_previews_is_a_kubernetes_role_on_every_cloud(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["rights", "-s", stack, "--preview-role"]) == cli.VERIFIED
    made = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in made["items"]] == ["ClusterRole", "ClusterRoleBinding"]


EKS_A100 = "slicewright.eu-west-1.p4d-cluster"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name one stack"),
        (["-s", "gke-h100", "-s", "eks-a100"], "name one stack"),
        (
            ["-s", "existing-a100-t4"],
            "stacks/Pulumi.existing-a100-t4.yaml: its cluster or hosts already exist",
        ),
        (["-s", "missing"], "Pulumi.missing.yaml"),
        (["-s", "hosts-a100", "--preview-role"], "it has hosts only, no cluster"),
        (["-s", "eks-a100", "--preview-role", "--json"], "--preview-role prints a manifest"),
        (["-s", "gke-h100", "--boundary"], "--boundary and --state are for EKS stacks only"),
        (["stacks/Pulumi.eks-a100.yaml", "--state"], "--state needs the stack's name as -s NAME"),
    ],
)
def test_wrong_use_leaves_stdout_empty(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["rights", *arguments]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_features_that_cannot_be_deployed_yet_have_no_rights(
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
        (60, "a managed policy may have at most 6144: attach it to the role that runs Pulumi"),
        (200, "the inline policies of a role may have at most 10240 together: divide"),
    ],
)
def test_a_policy_that_is_too_long_names_where_to_attach_it(
    roles: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = yaml.safe_load((ROOT / "stacks" / "Pulumi.eks-a100.yaml").read_text())
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
    assert cli.main(["rights", str(file)]) == cli.VERIFIED
    out, err = capsys.readouterr()
    assert json.loads(out)["Statement"]
    assert said in err
    assert bool(err) is bool(said)


def test_the_stack_file_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(stack_file, "read", wraps=stack_file.read) as read:
        assert cli.main(["rights", "-s", "eks-a100"]) == cli.VERIFIED
    assert read.call_count == 1
    assert capsys.readouterr().out
