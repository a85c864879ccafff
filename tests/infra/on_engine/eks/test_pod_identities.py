"""IAM roles of pods through the real engine, over the simulated EKS."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.cloud_engine import REGION, CloudEngine
from tests.infra.existing_vpc import ExistingCluster, ExistingVpc, role_of_pods


def fleet(*roles: tuple[str, str], **cluster: Any) -> dict[str, Any]:
    """roles: of pods, by their service account."""
    identities = [{"namespace": "a", "service_account": of, "role": role} for of, role in roles]
    return {
        "cloud": "eks",
        "cluster": {"name": "c", "region": REGION, "pod_identities": identities, **cluster},
        "node_pools": [{"name": "a", "machine_type": "g6.xlarge", "nodes": {"count": 1}}],
    }


def given(engine: CloudEngine) -> dict[str, tuple[str, str]]:
    """Service account -> its association and its role."""
    listed = engine.ask("ListPodIdentityAssociations", clusterName="c")["associations"]
    found = {}
    for one in listed:
        names = {"clusterName": "c", "associationId": one["associationId"]}
        whole = engine.ask("DescribePodIdentityAssociation", **names)["association"]
        found[whole["serviceAccount"]] = (whole["associationId"], whole["roleArn"])
    return found


@pytest.mark.long(
    "in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)
def test_pod_identities_are_added_changed_in_place_and_removed(engine: CloudEngine) -> None:
    first, second = (role_of_pods(engine, name) for name in ("first", "second"))
    engine.deploy_and_settle(fleet(("x", first), ("y", first)))
    before = given(engine)
    assert {of: role for of, (_, role) in before.items()} == {"x": first, "y": first}
    engine.deploy_and_settle(fleet(("y", second)))
    assert given(engine) == {"y": (before["y"][0], second)}
    engine.deploy_and_settle(fleet())
    assert given(engine) == {}
    agents = engine.ask("ListAddons", clusterName="c")["addons"]
    assert "eks-pod-identity-agent" not in agents
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert {*engine.cloud.inventory()} == {"iam.role"}


def test_role_without_a_trust_in_pods_is_refused_with_the_message_of_eks(
    engine: CloudEngine,
) -> None:
    ExistingCluster(engine, ExistingVpc(engine))
    wrong = role_of_pods(engine, "wrong", trusted=False)
    ran = engine.up(fleet(("x", wrong), existing=True, zones=[REGION + "a", REGION + "b"]))
    assert ran.code != 0
    assert "Trust policy of the role provided is invalid" in ran.output
