"""What becomes of creations that were cut off, from the state alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright import cli
from slicewright.infra.recovery import CannotAdopt, add_planned_creations, recover

PROVIDER = "urn:pulumi:p::s::pulumi:providers:gcp::google"


def urn(kind: str, name: str = "x") -> str:
    return f"urn:pulumi:p::s::{kind}::{name}"


def state(kind: str, inputs: dict[str, Any], operation: str = "creating") -> dict[str, Any]:
    """An export with one operation pending, of a resource of a provider for project acme."""
    provider = {
        "urn": PROVIDER,
        "type": "pulumi:providers:gcp",
        "inputs": {"project": "acme", "region": "us-central1", "version": "10.2.0"},
    }
    resource = {"urn": urn(kind), "type": kind, "inputs": inputs, "provider": f"{PROVIDER}::id"}
    pending = {"type": operation, "resource": resource}
    deployment = {"resources": [provider], "pending_operations": [pending], "manifest": {"m": 1}}
    return {"version": 3, "deployment": deployment}


CLUSTER = "projects/acme/locations/us-central1/clusters/main"


@pytest.mark.parametrize(
    ("kind", "inputs", "identity"),
    [
        ("gcp:compute/network:Network", {"name": "n"}, "projects/acme/global/networks/n"),
        (
            "gcp:compute/network:Network",
            {"name": "n", "project": "other"},
            "projects/other/global/networks/n",
        ),
        (
            "gcp:compute/subnetwork:Subnetwork",
            {"name": "s"},
            "projects/acme/regions/us-central1/subnetworks/s",
        ),
        (
            "gcp:serviceaccount/account:Account",
            {"accountId": "nodes"},
            "projects/acme/serviceAccounts/nodes@acme.iam.gserviceaccount.com",
        ),
        (
            "gcp:container/cluster:Cluster",
            {"name": "main", "location": "us-central1"},
            CLUSTER,
        ),
        (
            "gcp:container/nodePool:NodePool",
            {"name": "p", "cluster": CLUSTER},
            f"{CLUSTER}/nodePools/p",
        ),
        (
            "gcp:container/nodePool:NodePool",
            {"name": "p", "cluster": "main", "location": "us-central1"},
            f"{CLUSTER}/nodePools/p",
        ),
        ("aws:eks/cluster:Cluster", {"name": "main"}, "main"),
        (
            "aws:eks/nodeGroup:NodeGroup",
            {"clusterName": "main", "nodeGroupName": "g"},
            "main:g",
        ),
        ("aws:iam/role:Role", {"name": "r"}, "r"),
        ("aws:iam/rolePolicy:RolePolicy", {"role": "r", "name": "p"}, "r:p"),
        (
            "aws:ec2/routeTableAssociation:RouteTableAssociation",
            {"subnetId": "subnet-1", "routeTableId": "rtb-1"},
            "subnet-1/rtb-1",
        ),
        ("aws:ec2/placementGroup:PlacementGroup", {"name": "pg"}, "pg"),
        (
            "aws:eks/accessEntry:AccessEntry",
            {"clusterName": "main", "principalArn": "arn:aws:iam::1:role/r"},
            "main:arn:aws:iam::1:role/r",
        ),
        (
            "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
            {"clusterName": "main", "principalArn": "arn:p", "policyArn": "arn:q"},
            "main#arn:p#arn:q",
        ),
        ("gcp:compute/firewall:Firewall", {"name": "f"}, "projects/acme/global/firewalls/f"),
        (
            "gcp:compute/router:Router",
            {"name": "r"},
            "projects/acme/regions/us-central1/routers/r",
        ),
        (
            "gcp:compute/routerNat:RouterNat",
            {"name": "n", "router": "projects/acme/regions/us-central1/routers/r"},
            "acme/us-central1/r/n",
        ),
        (
            "kubernetes:core/v1:ConfigMap",
            {"metadata": {"name": "c", "namespace": "system"}},
            "system/c",
        ),
        ("kubernetes:core/v1:Namespace", {"metadata": {"name": "system"}}, "system"),
        (
            "kubernetes:helm.sh/v3:Release",
            {"name": "operator", "namespace": "gpu"},
            "gpu/operator",
        ),
    ],
)
def test_the_id_follows_from_the_inputs(kind: str, inputs: dict, identity: str) -> None:
    found = recover(state(kind, inputs))
    assert found.adopted == [(urn(kind), identity)]
    assert found.deployment["deployment"]["pending_operations"] == []
    assert found.deployment["deployment"]["resources"][-1]["id"] == identity
    assert found.deployment["deployment"]["manifest"] == {"m": 1}


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("aws:ec2/vpc:Vpc", {"cidrBlock": "10.0.0.0/16"}),
        ("gcp:container/nodePool:NodePool", {"namePrefix": "p-", "cluster": CLUSTER}),
    ],
)
def test_creation_with_an_id_that_only_the_cloud_knows_stays_pending(
    kind: str, inputs: dict
) -> None:
    before = state(kind, inputs)
    found = recover(before)
    assert (found.adopted, found.unknown) == ([], [urn(kind)])
    assert found.deployment == before


def test_lookup_in_the_cloud_adopts_the_resource_or_repeats_its_creation() -> None:
    vpc = urn("aws:ec2/vpc:Vpc")
    before = state("aws:ec2/vpc:Vpc", {"cidrBlock": "10.0.0.0/16"})
    found = recover(before, {vpc: "vpc-1"})
    assert (found.adopted, found.unknown) == ([(vpc, "vpc-1")], [])
    none = recover(before, {vpc: None})
    assert (none.adopted, none.repeatable, none.unknown) == ([], [vpc], [])
    assert none.deployment["deployment"]["pending_operations"] == []


def test_repeatable_creation_needs_no_lookup() -> None:
    found = recover(state("gcp:projects/iAMMember:IAMMember", {"role": "r"}))
    assert (found.adopted, found.unknown) == ([], [])
    assert found.repeatable == [urn("gcp:projects/iAMMember:IAMMember")]
    assert found.deployment["deployment"]["pending_operations"] == []


def test_adopted_gke_cluster_still_removes_its_default_pool() -> None:
    inputs = {"name": "main", "location": "us-central1", "removeDefaultNodePool": True}
    found = recover(state("gcp:container/cluster:Cluster", inputs))
    assert found.deployment["deployment"]["resources"][-1]["inputs"] == {
        "name": "main",
        "location": "us-central1",
    }


def test_resource_that_is_already_in_the_state_is_not_adopted_again() -> None:
    before = state("aws:eks/cluster:Cluster", {"name": "main"})
    there = {"urn": urn("aws:eks/cluster:Cluster"), "id": "main", "type": "aws:eks/cluster:Cluster"}
    before["deployment"]["resources"].append(there)
    found = recover(before)
    assert found.adopted == []
    assert found.deployment["deployment"]["resources"].count(there) == 1


@pytest.mark.parametrize("operation", ["updating", "deleting", "reading"])
def test_pending_updates_and_deletions_are_left_to_the_refresh(operation: str) -> None:
    found = recover(state("aws:eks/cluster:Cluster", {"name": "main"}, operation))
    assert (found.adopted, found.unknown) == ([], [])


ROLE = "aws:iam/role:Role"


def previewed(inputs: dict[str, Any]) -> dict[str, Any]:
    new = {"urn": urn(ROLE), "type": ROLE, "custom": True, "inputs": inputs}
    return {"steps": [{"op": "create", "urn": urn(ROLE), "newState": new}]}


def test_planned_creation_is_adopted_by_its_urn() -> None:
    empty = {"version": 3, "deployment": {"resources": []}}
    found = recover(add_planned_creations(empty, previewed({"name": "nodes"}), [urn(ROLE)]))
    assert found.adopted == [(urn(ROLE), "nodes")]
    assert found.deployment["deployment"]["resources"][0]["custom"] is True


@pytest.mark.parametrize(
    ("inputs", "named", "words"),
    [
        ({"name": "nodes"}, "urn:other", "would not create it; it would create urn:pulumi"),
        ({"name": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"}, urn(ROLE), "its name is unknown"),
        ({"name": "a", "description": "[secret]"}, urn(ROLE), "its description is secret"),
    ],
)
def test_refusal_to_adopt_a_planned_creation_has_a_reason(
    inputs: dict, named: str, words: str
) -> None:
    with pytest.raises(CannotAdopt, match=words):
        add_planned_creations({"deployment": {}}, previewed(inputs), [named])


def test_missing_pulumi_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["recover"]) == 3
    assert capsys.readouterr().err.startswith("slicewright recover: cannot start pulumi")


@pytest.mark.parametrize("printed", ["no JSON", "{}"])
def test_unreadable_export_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any, printed: str
) -> None:
    (tmp_path / "pulumi").write_text(f"#!/bin/sh\necho '{printed}'\n")
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cli.main(["recover"]) == 3
    assert "cannot parse the output of `pulumi stack export`" in capsys.readouterr().err


def test_dry_run_changes_nothing_and_names_the_pending_resources(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    (tmp_path / "state.json").write_text(json.dumps(state("aws:ec2/vpc:Vpc", {})))
    (tmp_path / "pulumi").write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ncat {tmp_path}/state.json\n'
    )
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cli.main(["recover", "--stack", "prod", "--dry-run"]) == 1
    assert (tmp_path / "calls").read_text() == "stack export --stack prod\n"
    assert "stays pending: urn:pulumi:p::s::aws:ec2/vpc:Vpc::x" in capsys.readouterr().out


def test_urns_are_printed_unwrapped_and_without_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """They are copied into --adopt."""
    monkeypatch.setenv("COLUMNS", "40")
    half = state("aws:ec2/vpc:Vpc", {})
    name = "urn:pulumi:p::s::aws:ec2/vpc:Vpc::net[bold]work-of-a-rather-long-name"
    half["deployment"]["pending_operations"][0]["resource"]["urn"] = name
    (tmp_path / "state.json").write_text(json.dumps(half))
    (tmp_path / "pulumi").write_text(f"#!/bin/sh\ncat {tmp_path}/state.json\n")
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cli.main(["recover", "--dry-run"]) == 1
    assert f"stays pending: {name}\n" in capsys.readouterr().out
