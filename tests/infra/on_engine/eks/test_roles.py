"""The IAM roles of a stack of EKS, by the real engine: those that there are keep their names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from slicewright.infra import manifests, plan, stack_file
from slicewright.rehearsal.clouds.aws import state
from tests.infra.cloud_engine import BOUNDARY, REGION, CloudEngine

_EARLIER = """\
import pulumi


def _as_before(args):
    if args.type_ != "aws:iam/role:Role":
        return None
    args.props["name"] = None
    args.opts.ignore_changes = None
    args.opts.replacement_trigger = None
    return pulumi.ResourceTransformationResult(args.props, args.opts)


pulumi.runtime.register_stack_transformation(_as_before)
"""
"""What makes roles as the program did before their names told whose they are."""


def fleet(name: str = "c", **cluster: Any) -> dict[str, Any]:
    return {
        "cloud": "eks",
        "cluster": {
            "name": name,
            "region": REGION,
            "zones": [f"{REGION}a", f"{REGION}b"],
            "addons": {"aws-ebs-csi-driver": {}},
            **cluster,
        },
        "node_pools": [{"name": "a", "machine_type": "g6.xlarge", "nodes": {"count": 1}}],
    }


def planned(asked: Mapping[str, Any]) -> plan.EksFleetPlan:
    found = plan.read(json.dumps(asked), stack_file.Source("fleet.json", dict(asked)))
    assert isinstance(found, plan.EksFleetPlan)
    return found


def roles(engine: CloudEngine) -> Mapping[str, str]:
    """Part of the stack -> the name of its role."""
    return {
        name.removeprefix("eks-"): found
        for (kind, name), found in engine.ids().items()
        if kind == "Role"
    }


def boundaries(engine: CloudEngine) -> set[str | None]:
    """Of all roles of the account."""
    there = engine.cloud._store.values(state.ROLES)
    return {one.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn") for one in there}


def as_before(engine: CloudEngine, asked: Mapping[str, Any]) -> None:
    """The stack as the program of an earlier version makes it."""
    program = engine.directory / "__main__.py"
    now = program.read_text()
    program.write_text(_EARLIER + now)
    engine.deploy(asked)
    program.write_text(now)


def test_a_stack_of_an_earlier_version_keeps_its_roles(engine: CloudEngine) -> None:
    as_before(engine, fleet())
    earlier = roles(engine)
    assert {part: name.rpartition("-")[0] for part, name in earlier.items()} == {
        part: f"eks-{part}" for part in ("control-plane", "nodes", "ebs-csi")
    }
    preview = engine.operations(fleet())
    assert {op for ops in preview.values() for op in ops} == {"same"}
    engine.assert_settled(fleet())
    assert roles(engine) == earlier


def test_a_stack_of_an_earlier_version_gets_a_boundary_with_the_policy_of_its_state(
    engine: CloudEngine,
) -> None:
    as_before(engine, fleet())
    earlier, asked = roles(engine), fleet(permissions_boundary=BOUNDARY)
    after = planned(asked)
    engine.call_with(
        manifests.aws_policy(after, role_names=earlier),
        boundary=manifests.boundary_policy(after, earlier),
    )
    assert boundaries(engine) == {None}
    engine.deploy(asked)
    assert boundaries(engine) == {BOUNDARY}
    assert roles(engine) == earlier
    engine.assert_no_changes(asked)
    gone = engine.destroy()
    assert gone.code == 0, gone.output


def test_the_policy_without_the_names_of_its_state_does_not_cover_an_earlier_stack(
    engine: CloudEngine,
) -> None:
    as_before(engine, fleet())
    engine.call_with(manifests.aws_policy(planned(fleet())))
    drift = engine.refresh()
    assert drift.code != 0
    assert "is not authorized to perform: iam:GetRole on resource" in drift.output


@pytest.mark.parametrize("earlier", [True, False])
def test_a_cluster_of_another_name_gets_roles_of_that_name(
    engine: CloudEngine, earlier: bool
) -> None:
    if earlier:
        as_before(engine, fleet())
    else:
        engine.deploy(fleet())
    engine.assert_no_changes(fleet())
    engine.deploy(fleet("d"))
    assert roles(engine) == planned(fleet("d")).cluster.role_names
    engine.assert_no_changes(fleet("d"))


def test_a_boundary_that_was_removed_from_a_role_is_restored(
    engine: CloudEngine,
) -> None:
    asked = fleet(permissions_boundary=BOUNDARY)
    engine.deploy(asked)
    nodes = {"RoleName": roles(engine)["nodes"]}
    engine.cloud.call("aws-iam", "DeleteRolePermissionsBoundary", {"region": REGION}, nodes)
    engine.call_with(
        manifests.aws_policy(planned(asked)), boundary=manifests.boundary_policy(planned(asked))
    )
    assert engine.refresh("--expect-no-changes").code != 0
    engine.deploy(asked)
    assert boundaries(engine) == {BOUNDARY}


def test_a_changed_trust_policy_is_seen_and_its_repair_needs_more_rights(
    engine: CloudEngine,
) -> None:
    engine.deploy(fleet())
    anybody = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [anybody]})
    nodes = {"RoleName": roles(engine)["nodes"], "PolicyDocument": trust}
    engine.cloud.call("aws-iam", "UpdateAssumeRolePolicy", {"region": REGION}, nodes)
    engine.call_with(manifests.aws_policy(planned(fleet())))
    assert engine.refresh("--expect-no-changes").code != 0
    refused = engine.up(fleet())
    assert refused.code != 0
    assert "is not authorized to perform: iam:UpdateAssumeRolePolicy" in refused.output
