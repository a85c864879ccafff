"""Access entries of an EKS plan: what the stack file may say, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pulumi_aws as aws
import pulumi_kubernetes as k8s
import pytest
import yaml

from slicewright.infra import plan, program, stack_file
from tests.recorder import Made

Record = Callable[..., list[Made]]
FLEET = """\
cloud: eks
cluster: {{name: c, region: {region}{cluster}, access: {access}}}
node_pools:
- {{name: a, machine_type: g6.xlarge, nodes: {{count: 1}}}}
"""
ML = "arn:aws:iam::111122223333:role/teams/ml"
ADMIN = "arn:aws:iam::111122223333:role/admin"
ALL = "policies: [{name: AmazonEKSClusterAdminPolicy}]"


def written(access: str, cluster: str = "", region: str = "us-west-2") -> str:
    return FLEET.format(access=access, cluster=cluster, region=region)


def of_type(record_cloud: Record, text: str, kind: str) -> list[dict[str, Any]]:
    return [
        {"resource": m.name, **m.inputs}
        for m in record_cloud("test", fleet=text)
        if m.type == f"aws:eks/{kind}"
    ]


ENTRY, POLICY = (
    "accessEntry:AccessEntry",
    "accessPolicyAssociation:AccessPolicyAssociation",
)


def test_an_entry_has_its_groups_and_each_policy_its_scope(record_cloud: Record) -> None:
    text = written(
        f"{{entries: [{{principal: '{ML}', groups: [b, a], policies: "
        "[{name: AmazonEKSViewPolicy}, {name: AmazonEKSEditPolicy, namespaces: [training]}]}]}"
    )
    (entry,) = of_type(record_cloud, text, ENTRY)
    assert entry["principalArn"] == ML
    assert entry["type"] == "STANDARD"
    assert entry["kubernetesGroups"] == ["a", "b"]
    found = {p["policyArn"]: p["accessScope"] for p in of_type(record_cloud, text, POLICY)}
    beginning = "arn:aws:eks::aws:cluster-access-policy"
    assert found == {
        f"{beginning}/AmazonEKSEditPolicy": {"type": "namespace", "namespaces": ["training"]},
        f"{beginning}/AmazonEKSViewPolicy": {"type": "cluster"},
    }


def test_resources_have_the_same_names_wherever_an_entry_stands(record_cloud: Record) -> None:
    entries = [f"{{principal: '{arn}', {ALL}}}" for arn in (ML, ADMIN)]
    names = [
        {
            e["resource"]
            for e in of_type(record_cloud, written(f"{{entries: [{', '.join(some)}]}}"), ENTRY)
        }
        for some in (entries, entries[::-1])
    ]
    assert names[0] == names[1]
    assert len(names[0]) == 2


def test_an_entry_without_groups_removes_earlier_groups(record_cloud: Record) -> None:
    (entry,) = of_type(record_cloud, written(f"{{entries: [{{principal: '{ML}', {ALL}}}]}}"), ENTRY)
    assert entry["kubernetesGroups"] == []


@pytest.mark.parametrize(
    ("region", "partition"), [("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")]
)
def test_policies_are_those_of_the_partition(
    record_cloud: Record, region: str, partition: str
) -> None:
    arn = ML.replace("arn:aws:", f"arn:{partition}:")
    text = written(f"{{entries: [{{principal: '{arn}', {ALL}}}]}}", region=region)
    (policy,) = of_type(record_cloud, text, POLICY)
    assert policy["policyArn"] == (
        f"arn:{partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    )


def test_the_creator_administers_the_cluster_unless_the_file_says_otherwise(
    record_cloud: Record,
) -> None:
    for access, expected in (
        ("{}", True),
        (f"{{creator_admin: false, entries: [{{principal: '{ADMIN}', {ALL}}}]}}", False),
    ):
        (cluster,) = of_type(record_cloud, written(access), "cluster:Cluster")
        config = cluster["accessConfig"]
        assert config["bootstrapClusterCreatorAdminPermissions"] is expected
        assert config["authenticationMode"] == "API_AND_CONFIG_MAP"


def test_objects_of_the_cluster_depend_on_the_access_entries(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[set[type]] = []

    def provider(name: str, opts: Any, **inputs: Any) -> k8s.Provider:
        waited.append({type(one) for one in opts.depends_on})
        return k8s.Provider(name, opts=opts, **inputs)

    monkeypatch.setattr(program, "k8s", SimpleNamespace(Provider=provider))
    record("test", fleet=written(f"{{entries: [{{principal: '{ADMIN}', {ALL}}}]}}"))
    assert waited == [{aws.eks.AccessEntry, aws.eks.AccessPolicyAssociation}]


@pytest.mark.parametrize(
    ("access", "said"),
    [
        (
            f"{{entries: [{{principal: '{ML}', {ALL}}}, {{principal: '{ML}', groups: [g]}}]}}",
            "already has an entry, entries[0]: EKS allows one per principal",
        ),
        (
            f"{{entries: [{{principal: 'arn:aws:sts::111122223333:assumed-role/ml/me', {ALL}}}]}}",
            "the ARN of a session (sts, assumed-role) is valid for a single login only",
        ),
        (
            "{entries: [{principal: 'arn:aws:iam::111122223333:role/aws-service-role/"
            f"eks.amazonaws.com/AWSServiceRoleForAmazonEKS', {ALL}}}]}}",
            "is a service-linked role",
        ),
        (
            f"{{entries: [{{principal: '{ML.replace('aws:', 'aws-cn:', 1)}', {ALL}}}]}}",
            "is of partition aws-cn, and us-west-2 is in aws",
        ),
        (
            f"{{entries: [{{principal: '{ML}', groups: ['system:masters']}}]}}",
            "is not a group that EKS accepts",
        ),
        (f"{{entries: [{{principal: '{ML}'}}]}}", "has neither policies nor groups"),
        (
            f"{{entries: [{{principal: '{ML}', policies: [{{name: AmazonEKSEditPolicy, namespaces: "
            "[a]}, {name: AmazonEKSEditPolicy, namespaces: [b]}]}]}",
            "is listed twice: EKS associates a policy with an entry once",
        ),
        (f"{{entries: [{{principal: '{ML}', policies: [{{name: AmazonEKSRoot}}]}}]}}", "AmazonEKS"),
        ("{creator_admin: false}", "the cluster would have no administrator, not even `pulumi up`"),
        (
            f"{{creator_admin: false, entries: [{{principal: '{ML}', policies: "
            "[{name: AmazonEKSClusterAdminPolicy, namespaces: [a]}]}]}",
            "the cluster would have no administrator",
        ),
    ],
)
def test_access_entries_that_eks_refuses_are_refused(
    broken: Callable[[str], str], access: str, said: str
) -> None:
    refused = " ".join(broken(written(access)).split())
    assert said in refused
    assert " 1 problem," in refused


def test_an_existing_cluster_keeps_its_access_entries_and_gets_more(
    broken: Callable[[str], str], record_cloud: Record
) -> None:
    existing = ", existing: true"
    text = written(f"{{entries: [{{principal: '{ML}', {ALL}}}]}}", existing)
    assert len(of_type(record_cloud, text, ENTRY)) == 1
    assert not of_type(record_cloud, text, "addon:Addon")
    refused = broken(written("{creator_admin: false}", existing))
    assert "creator_admin: the cluster exists already" in refused


def test_a_note_says_who_cannot_reach_the_cluster() -> None:
    def notes(access: str) -> str:
        raw = yaml.safe_load(written(access))
        return "\n".join(plan.notes(plan.read(json.dumps(raw), stack_file.Source("test", raw))))

    admin = f"entries: [{{principal: '{ADMIN}', {ALL}}}]"
    assert f"refuses a second one: where that is {ADMIN}" in notes(f"{{{admin}}}")
    assert f"only {ADMIN} will administer a new cluster" in notes(
        f"{{creator_admin: false, {admin}}}"
    )
    assert "access" not in notes(f"{{entries: [{{principal: '{ML}', groups: [g]}}]}}")
