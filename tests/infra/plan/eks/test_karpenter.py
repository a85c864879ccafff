"""`cluster.autoscaler: karpenter`: what it accepts, and what is installed and written for it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from policy.rules import RULES, Resource, ResourceRule
from policy.rules.rule import complete_settings
from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.plan import ChangeEffect
from slicewright.infra.plan.changes.rules import rules_of
from slicewright.rehearsal.clouds.aws.policy_evaluation import evaluate
from slicewright.rehearsal.scenario.stack_check import unrehearsable

GOLDEN = Path(__file__).parents[2] / "golden" / "karpenter"
KEY = "arn:aws:kms:us-west-2:111122223333:key/a"
ROLE = "arn:aws:iam::111122223333:role/eks-nodes-1"
POOL: Mapping[str, Any] = {
    "name": "a",
    "machine_type": "p4d.24xlarge",
    "nodes": {"min": 0, "max": 2},
    "release_version": "1.35.0-20260714",
    "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
}
WHOLE: Mapping[str, Any] = {k: v for k, v in POOL.items() if k != "partition"}
SMALL: Mapping[str, Any] = {
    **WHOLE,
    "name": "small",
    "machine_type": "g6.2xlarge",
    "other_machine_types": ["g6.4xlarge"],
}
FULL: Mapping[str, Any] = {
    **POOL,
    "name": "full",
    "labels": {"team": "ml"},
    "taints": [{"key": "team", "value": "ml", "effect": "NoSchedule"}],
    "disk": {"size_gb": 500, "kms_key": KEY},
    "instance_store": "raid0",
    "instance_metadata": {"hop_limit": 2},
    "instance_tags": {"cost-center": "research"},
    "update": {"max_unavailable": "20%"},
}
ALL_KEYS = {
    "mode": "karpenter",
    "chart_version": "1.14.1",
    "repository": "oci://registry.example.com/karpenter",
    "interruption_queue": "c-interruptions",
    "consolidation": "underutilized",
    "empty_minutes": 30,
    "drain_minutes": 240,
}
MIXED = [{"index": [0], "layout": {}}, {"index": [*range(1, 8)], "layout": {"1g.5gb": 7}}]
Record = Callable[..., list[Any]]
IN_PLACE, ROLL = ChangeEffect.IN_PLACE, ChangeEffect.ROLL


def written(
    *pools: Mapping[str, Any], autoscaler: object = "karpenter", **cluster: Any
) -> dict[str, Any]:
    asked = {"name": "c", "region": "us-west-2", "version": "1.35", **cluster}
    if autoscaler is not None:
        asked["autoscaler"] = autoscaler
    return {"cloud": "eks", "cluster": asked, "node_pools": [dict(p) for p in pools or (POOL,)]}


def planned(*pools: Mapping[str, Any], **cluster: Any) -> plan.EksFleetPlan:
    raw = written(*pools, **cluster)
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    return found


def refusal(raw: dict[str, Any]) -> str:
    with pytest.raises(stack_file.SpecError) as caught:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    return str(caught.value)


def test_a_fixed_number_of_nodes_stays_a_node_group() -> None:
    fixed = {**WHOLE, "name": "b", "nodes": {"count": 1}}
    fleet = planned(POOL, fixed)
    assert [pool.name for pool in fleet.karpenter_pools] == ["a"]
    assert [pool.name for pool in fleet.node_groups] == ["b"]
    assert not planned(autoscaler="cluster-autoscaler").karpenter_pools


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        ({"nodes": {"min": 1, "max": 2}}, "Karpenter has no minimum number of nodes"),
        ({"release_version": None}, "whenever EKS publishes a newer one"),
        ({"capacity": "spot"}, "needs an interruption queue"),
        ({"capacity": "reservation"}, "write the reservation's ID, cr-…"),
        (
            {
                "capacity": {
                    "mode": "reservation",
                    "reservation": "arn:aws:resource-groups:us-west-2:111122223333:group/a",
                }
            },
            "Karpenter selects reservations by ID, and no groups of them",
        ),
        ({"efa": True}, "vpc.amazonaws.com/efa"),
        ({"placement": "cluster"}, "no placement group for Karpenter's nodes"),
        ({"repair": {}}, "Karpenter's own node repair is alpha"),
        ({"tags": {"team": "ml"}}, "write instance_tags"),
        ({"disk": {"size_gb": 60_000}}, "at most 59000 GB"),
        ({"update": {"strategy": "minimal"}}, "starts a new node before it ends an old one"),
        ({"instance_tags": {"karpenter.sh/nodepool": "a"}}, "Karpenter sets it itself"),
        ({"instance_tags": {"kubernetes.io/cluster/x": "owned"}}, "Karpenter sets it itself"),
        ({"labels": {"karpenter.sh/x": "y"}}, "Karpenter refuses labels of karpenter.sh"),
        ({"labels": {"x.karpenter.k8s.aws/y": "z"}}, "Karpenter refuses labels of karpenter.sh"),
        (
            {"partition": None, "sharing": {"mode": "time-slicing", "replicas": 2}},
            "a node offers 16 nvidia.com/gpu, and Karpenter counts 8",
        ),
        (
            {"partition": {"mode": "operator", "gpus": MIXED}},
            "a node offers 1 nvidia.com/gpu, and Karpenter counts 8",
        ),
    ],
    ids=lambda case: None if isinstance(case, str) else json.dumps(case)[:60],
)
def test_pools_that_karpenter_cannot_create_are_refused_and_work_as_node_groups(
    pool: dict[str, Any], words: str
) -> None:
    asked = {k: v for k, v in {**POOL, **pool}.items() if v is not None}
    assert words in refusal(written(asked))
    group = {**asked, "nodes": {"count": 1}}
    assert planned(group, network="private").node_groups


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({"autoscaler": {"mode": "karpenter", "chart_version": "1.13.0"}}, "write 1.14.0 or later"),
        ({"autoscaler": {"mode": "karpenter", "chart_version": "^1"}}, "one exact version"),
        ({"autoscaler": {"mode": "karpenter", "repository": "https://a.example"}}, "OCI registry"),
        ({"autoscaler": {"mode": "karpenter", "empty_minutes": 0}}, "at least 1 minute"),
        ({"autoscaler": {"mode": "karpenter", "interruption_queue": "a.fifo"}}, "standard SQS"),
        ({"autoscaler": {"mode": "karpenter", "drain_minutes": 0}}, "at least 1 minute"),
        ({"autoscaler": {"mode": "karpenter", "consolidation": "balanced"}}, "underutilized"),
        ({"existing": True, "version": None}, "slicewright does not change it"),
    ],
)
def test_invalid_karpenter_settings_are_refused(cluster: dict[str, Any], words: str) -> None:
    assert words in refusal(written(**cluster))


def test_karpenters_service_account_cannot_get_a_second_role() -> None:
    role = "arn:aws:iam::111122223333:role/a"
    own = {"namespace": "kube-system", "service_account": "karpenter", "role": role}
    assert "has a role already, by karpenter" in refusal(written(pod_identities=[own]))
    # cluster-autoscaler is not there, and neither is a role of its.
    other = {**own, "service_account": "cluster-autoscaler"}
    assert len(planned(pod_identities=[other]).cluster.pod_identities) == 1


def test_partitions_need_an_overlay_and_whole_gpus_need_none() -> None:
    (cut,) = planned().pools
    overlay = manifests.node_overlay(cut)
    assert overlay is not None
    assert overlay["capacity"] == {"nvidia.com/mig-1g.5gb": "56"}
    (whole,) = planned(WHOLE).pools
    assert manifests.node_overlay(whole) is None
    renamed = {"mode": "time-slicing", "replicas": 2, "rename_by_default": True}
    (shared,) = planned({**WHOLE, "sharing": renamed}).pools
    overlay = manifests.node_overlay(shared)
    assert overlay is not None
    assert overlay["capacity"] == {"nvidia.com/gpu.shared": "16"}


def test_node_overlay_gate_is_on_only_if_a_pool_has_an_overlay() -> None:
    gates = [
        manifests.karpenter_values(planned(pool))["settings"]["featureGates"]
        for pool in (POOL, WHOLE)
    ]
    assert gates == [{"nodeOverlay": True}, {"nodeOverlay": False}]


def test_a_pod_for_a_whole_gpu_starts_no_partitioned_node() -> None:
    """An overlay cannot take a machine's GPUs away, so a taint that such a pod does not tolerate
    does; all that slicewright and the operator run on the nodes tolerates it.
    """
    key = "slicewright.io/no-whole-gpu"
    (cut,) = planned().pools
    (whole,) = planned(WHOLE).pools
    assert key in {taint.key for taint in cut.tolerated}
    assert key not in {taint.key for taint in whole.tolerated}
    assert key in {one["key"] for one in manifests.tolerations([cut])}


def test_the_startup_taint_is_among_karpenters_startup_taints() -> None:
    fleet = planned()
    assert isinstance(fleet.cluster.autoscaler, plan.KarpenterPlan)
    spec_of_nodes = manifests.node_pool(fleet.pools[0], fleet.cluster.autoscaler)["template"][
        "spec"
    ]
    (startup,) = spec_of_nodes["startupTaints"]
    assert startup["key"] == "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"
    assert startup not in spec_of_nodes["taints"]


@pytest.mark.parametrize(
    ("capacity", "kind", "reserved"),
    [
        ("on-demand", "on-demand", None),
        ("spot", "spot", None),
        ({"mode": "reservation", "reservation": "cr-0123456789abcdef0"}, "reserved", True),
        ({"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"}, "reserved", True),
    ],
)
def test_reserved_machines_come_from_the_reservation_only(
    capacity: object, kind: str, reserved: bool | None
) -> None:
    fleet = planned({**POOL, "capacity": capacity}, autoscaler=ALL_KEYS)
    assert isinstance(fleet.cluster.autoscaler, plan.KarpenterPlan)
    (pool,) = fleet.pools
    wanted = manifests.node_pool(pool, fleet.cluster.autoscaler)["template"]["spec"]["requirements"]
    assert wanted[1]["values"] == [kind]
    made = manifests.node_class(pool, role="r", subnet_ids=["subnet-1"], security_group="sg-1")
    terms = made.get("capacityReservationSelectorTerms")
    assert terms == ([{"id": "cr-0123456789abcdef0"}] if reserved else None)


@pytest.mark.parametrize(
    ("region", "partition", "service"),
    [
        ("us-west-2", "aws", "ec2.amazonaws.com"),
        ("us-gov-west-1", "aws-us-gov", "ec2.amazonaws.com"),
        ("cn-north-1", "aws-cn", "ec2.amazonaws.com.cn"),
    ],
)
def test_karpenter_policy_has_the_partition_of_the_region(
    region: str, partition: str, service: str
) -> None:
    fleet = planned()
    there = dataclasses.replace(fleet, cluster=dataclasses.replace(fleet.cluster, region=region))
    policy = manifests.karpenter_policy(there, node_role_arn=f"arn:{partition}:iam::1:role/a")
    arns = [arn for s in policy["Statement"] for arn in s["Resource"] if arn != "*"]
    assert arns
    assert all(arn.startswith(f"arn:{partition}:") for arn in arns)
    (passing,) = (s for s in policy["Statement"] if s["Action"] == ["iam:PassRole"])
    assert passing["Condition"] == {"StringEquals": {"iam:PassedToService": service}}


EC2 = "arn:aws:ec2:us-west-2:111122223333"
QUEUE = "arn:aws:sqs:us-west-2:111122223333:"
ELSEWHERE = EC2.replace("us-west-2", "us-east-1")
OWN = {"kubernetes.io/cluster/c": "owned", "karpenter.sh/nodepool": "full"}
OTHERS = {"kubernetes.io/cluster/other": "owned", "karpenter.sh/nodepool": "full"}
PROFILE = "arn:aws:iam::111122223333:instance-profile/karpenter/us-west-2/c/1/c_1"
PROFILE_TAGS = {
    "kubernetes.io/cluster/c": "owned",
    "karpenter.k8s.aws/ec2nodeclass": "full",
    "topology.kubernetes.io/region": "us-west-2",
}


def tagged(key: str, tags: Mapping[str, str]) -> dict[str, str]:
    return {f"aws:{key}/{name}": value for name, value in tags.items()}


@pytest.mark.parametrize(
    ("action", "arn", "context", "allowed"),
    [
        ("ec2:RunInstances", f"{EC2}:instance/*", tagged("RequestTag", OWN), True),
        ("ec2:RunInstances", f"{EC2}:instance/*", tagged("RequestTag", OTHERS), False),
        ("ec2:RunInstances", f"{EC2}:instance/*", {}, False),
        ("ec2:CreateFleet", f"{EC2}:capacity-reservation/cr-1", {}, True),
        ("ec2:CreateFleet", f"{EC2}:subnet/subnet-1", {}, True),
        ("ec2:CreateFleet", f"{ELSEWHERE}:subnet/subnet-1", {}, False),
        ("ec2:TerminateInstances", f"{EC2}:instance/i-1", tagged("ResourceTag", OWN), True),
        (
            "ec2:TerminateInstances",
            f"{EC2}:instance/i-1",
            tagged("ResourceTag", OTHERS),
            False,
        ),
        (
            "ec2:DeleteLaunchTemplate",
            f"{EC2}:launch-template/lt-1",
            tagged("ResourceTag", {"Name": "c"}),
            False,
        ),
        (
            "ec2:CreateTags",
            f"{EC2}:instance/i-1",
            {**tagged("ResourceTag", OWN), "aws:TagKeys": "Name"},
            True,
        ),
        (
            "ec2:CreateTags",
            f"{EC2}:instance/i-1",
            {**tagged("ResourceTag", OWN), "aws:TagKeys": "kubernetes.io/cluster/other"},
            False,
        ),
        ("iam:PassRole", ROLE, {"iam:PassedToService": "ec2.amazonaws.com"}, True),
        ("iam:PassRole", ROLE, {"iam:PassedToService": "lambda.amazonaws.com"}, False),
        ("iam:PassRole", f"{ROLE}2", {"iam:PassedToService": "ec2.amazonaws.com"}, False),
        ("iam:CreateInstanceProfile", PROFILE, tagged("RequestTag", PROFILE_TAGS), True),
        ("iam:CreateInstanceProfile", PROFILE, tagged("RequestTag", OWN), False),
        ("iam:AddRoleToInstanceProfile", PROFILE, tagged("ResourceTag", PROFILE_TAGS), True),
        ("iam:AddRoleToInstanceProfile", PROFILE, tagged("ResourceTag", OTHERS), False),
        ("kms:CreateGrant", KEY, {"kms:GrantIsForAWSResource": "true"}, True),
        ("kms:CreateGrant", KEY, {"kms:GrantIsForAWSResource": "false"}, False),
        ("kms:Decrypt", KEY.replace("key/a", "key/b"), {}, False),
        ("sqs:ReceiveMessage", f"{QUEUE}c-interruptions", {}, True),
        ("sqs:ReceiveMessage", f"{QUEUE}other", {}, False),
        ("sqs:SendMessage", f"{QUEUE}c-interruptions", {}, False),
        ("iam:PutRolePolicy", ROLE, {}, False),
    ],
)
def test_karpenters_role_may_change_only_resources_that_karpenter_created(
    action: str, arn: str, context: dict[str, str], allowed: bool
) -> None:
    policy = manifests.karpenter_policy(planned(FULL, autoscaler=ALL_KEYS), node_role_arn=ROLE)
    asked = {key.lower(): [value] for key, value in context.items()}
    decision = evaluate([policy], action, arn, asked).decision
    assert decision == ("allowed" if allowed else "implicitDeny")


def test_karpenter_policy_fits_into_an_inline_policy() -> None:
    """Source: IAM user guide, quotas: 10,240 characters without white space."""
    policy = manifests.karpenter_policy(planned({**FULL}), node_role_arn=ROLE)
    assert len(json.dumps(policy, separators=(",", ":"))) < 10_240


@pytest.mark.parametrize(
    ("name", "fleet"),
    [
        ("default", written()),
        ("all-keys", written(FULL, {**SMALL, "capacity": "spot"}, autoscaler=ALL_KEYS)),
    ],
)
def test_the_renders_are_as_committed(
    name: str, fleet: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    content = "".join(
        f"# {title}\n{manifests.as_flow_yaml(body)}\n" for title, body in rendered(fleet).items()
    )
    file = GOLDEN / f"{name}.yaml"
    if request.config.getoption("--update-golden"):
        GOLDEN.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == content


def rendered(raw: dict[str, Any]) -> dict[str, Any]:
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    karpenter = found.cluster.autoscaler
    assert isinstance(karpenter, plan.KarpenterPlan)
    charts = [
        manifests.karpenter_chart(karpenter, one)
        for one in (manifests.KARPENTER_CRDS, manifests.KARPENTER_NAME)
    ]
    made = {
        "charts": {"charts": charts, "version": karpenter.chart_version},
        "values": manifests.karpenter_values(found),
        "policy": manifests.karpenter_policy(found, node_role_arn=ROLE),
    }
    for pool in found.karpenter_pools:
        made[f"EC2NodeClass {pool.name}"] = manifests.node_class(
            pool, role="eks-nodes-1", subnet_ids=["subnet-1"], security_group="sg-1"
        )
        made[f"NodePool {pool.name}"] = manifests.node_pool(pool, karpenter)
        made[f"NodeOverlay {pool.name}"] = manifests.node_overlay(pool) or {}
    return made


def test_the_program_creates_karpenter_objects_and_no_node_group(
    record: Record,
) -> None:
    made = {m.name: m for m in record("test", fleet=json.dumps(written()))}
    assert "eks-a" not in made
    assert made["karpenter"].inputs["version"] == made["karpenter-crd"].inputs["version"]
    association = made["eks-autoscaler-identity"].inputs
    assert (association["namespace"], association["serviceAccount"]) == ("kube-system", "karpenter")
    node_class = made["karpenter-a-ec2nodeclass"].inputs["spec"]
    assert node_class["subnetSelectorTerms"]
    assert node_class["securityGroupSelectorTerms"]
    node_pool = made["karpenter-a-nodepool"].inputs
    assert node_pool["metadata"]["name"] == "a"
    assert node_pool["metadata"]["annotations"] == {
        "pulumi.com/waitFor": "condition=Ready",
        "pulumi.com/deletionPropagationPolicy": "foreground",
    }
    assert made["karpenter-a-nodeoverlay"].inputs["spec"]["capacity"]
    policy = json.loads(made["eks-autoscaler-rights"].inputs["policy"])
    assert [s for s in policy["Statement"] if "ec2:CreateFleet" in s["Action"]]


def test_no_karpenter_resource_is_created_by_default(record: Record) -> None:
    made = record("test", fleet=json.dumps(written(autoscaler="cluster-autoscaler")))
    assert not [m.name for m in made if "karpenter" in m.name]


def test_the_plan_says_what_differs_from_node_groups() -> None:
    def about(*pools: Mapping[str, Any], **cluster: Any) -> str:
        return "\n".join(plan.notes(planned(*pools, **cluster)))

    assert "NodeOverlays, which are alpha" in about()
    assert "must tolerate slicewright.io/no-whole-gpu too" in about()
    assert "alpha" not in about(WHOLE)
    assert "no-whole-gpu" not in about(WHOLE)
    assert "Karpenter has no GPU pool to make nodes of" in about({**WHOLE, "nodes": {"count": 1}})
    assert "do-not-disrupt" not in about()
    assert "do-not-disrupt" in about(autoscaler={**ALL_KEYS})
    spot = about({**POOL, "capacity": "spot"}, autoscaler=ALL_KEYS)
    assert "create-service-linked-role --aws-service-name spot.amazonaws.com" in spot
    # What is said of a node group's template is not true of it.
    assert "AWSServiceRoleForAutoScaling" not in about({**FULL})


def test_a_pool_that_moves_between_karpenter_and_a_node_group_is_replaced() -> None:
    (pool,) = plan.compare(planned(autoscaler="cluster-autoscaler"), planned()).pools
    assert pool.effect is ChangeEffect.REPLACE
    (changed,) = (c for c in pool.changes if c.rule.field == "karpenter")
    assert "made in the other way" in changed.why


@pytest.mark.parametrize(
    ("pool", "cluster", "field", "effect"),
    [
        ({"labels": {"a": "b"}}, {}, "labels", ROLL),
        ({"machine_type": "p4de.24xlarge", "partition": None}, {}, "machine.name", ROLL),
        ({"disk": {"size_gb": 200}}, {}, "template.disk_gb", ROLL),
        ({"release_version": "1.35.0-20260801"}, {}, "karpenter.image", ROLL),
        ({}, {"autoscaler": ALL_KEYS}, "karpenter.drain_minutes", ROLL),
        ({"nodes": {"min": 0, "max": 1}}, {}, "nodes", IN_PLACE),
        ({"update": {"max_unavailable": 2}}, {}, "karpenter.replaced_together", IN_PLACE),
    ],
)
def test_each_changed_key_has_its_effect_on_karpenters_nodes(
    pool: dict[str, Any], cluster: dict[str, Any], field: str, effect: ChangeEffect
) -> None:
    after = {k: v for k, v in {**POOL, **pool}.items() if v is not None}
    (found,) = plan.compare(planned(), planned(after, **cluster)).pools
    assert found.effect is effect
    assert field in {change.rule.field for change in found.changes}


def test_only_keys_of_karpenters_objects_have_a_change_rule() -> None:
    """Nothing of a node group's API is named for a pool that has no node group."""
    assert not [r.cloud_field for r in rules_of("karpenter_pool") if "config" in r.cloud_field]


def test_import_file_refuses_a_pool_of_karpenter() -> None:
    fixed = {**WHOLE, "name": "b", "nodes": {"count": 1}}
    with pytest.raises(manifests.NoSuchPool, match="Karpenter creates its nodes"):
        manifests.import_file(planned(POOL, fixed), None, {"resources": []}, ["a"])


def test_the_policy_pack_reads_what_the_program_declares(record: Record) -> None:
    pools = [{**POOL, "capacity": "spot", "nodes": {"min": 0, "max": 17}}]
    raw = written(*pools, autoscaler=ALL_KEYS)
    declared = [
        Resource(type=m.type, name=m.name, urn=m.name, props=m.inputs)
        for m in record("test", fleet=json.dumps(raw))
    ]
    settings = {
        "pool-spot": {"allowed": []},
        "pool-labelled": {"required": ["owner"]},
        "pool-machine-types": {"allowed": ["p5.*"]},
    }
    broken = {
        rule.name
        for rule in RULES
        if isinstance(rule, ResourceRule)
        for one in declared
        if one.name.startswith("karpenter-a-")
        and any(rule.check(one, complete_settings(rule, settings.get(rule.name, {}))))
    }
    assert broken == {"pool-size", "pool-spot", "pool-labelled", "pool-machine-types"}


def test_a_fleet_with_karpenter_can_be_rehearsed() -> None:
    assert not unrehearsable(planned())
