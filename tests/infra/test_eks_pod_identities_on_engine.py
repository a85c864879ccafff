"""IAM roles of pods through the real engine, over the simulated EKS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import REGION, CloudEngine, cloud_engine
from tests.infra.existing_vpc import ExistingCluster, ExistingVpc, role_of_pods


@pytest.fixture
def engine(tmp_path: Path, toolchain: Toolchain) -> Iterator[CloudEngine]:
    with cloud_engine(tmp_path, toolchain) as engine:
        yield engine


def fleet(*roles: tuple[str, str], **cluster: Any) -> dict[str, Any]:
    """roles: of pods, by their service account."""
    identities = [{"namespace": "a", "service_account": of, "role": role} for of, role in roles]
    return {
        "cloud": "eks",
        "cluster": {"name": "c", "region": REGION, "pod_identities": identities, **cluster},
        "node_pools": [{"name": "a", "machine_type": "g6.xlarge", "nodes": {"count": 1}}],
    }


def settles(engine: CloudEngine, asked: dict[str, Any]) -> None:
    """Brought up, then without any difference to the file and to the cloud."""
    ran = engine.up(asked)
    assert ran.code == 0, ran.output
    again = engine.up(asked, "--expect-no-changes")
    assert again.code == 0, again.output
    drift = engine.refresh("--expect-no-changes")
    assert drift.code == 0, drift.output


def given(engine: CloudEngine) -> dict[str, tuple[str, str]]:
    """Service account -> its association and its role."""
    listed = engine.ask("ListPodIdentityAssociations", clusterName="c")["associations"]
    found = {}
    for one in listed:
        names = {"clusterName": "c", "associationId": one["associationId"]}
        whole = engine.ask("DescribePodIdentityAssociation", **names)["association"]
        found[whole["serviceAccount"]] = (whole["associationId"], whole["roleArn"])
    return found


@pytest.mark.long("in the clouds without the engine: tests/infra/test_changes_in_clouds.py")
def test_pod_identities_are_added_changed_in_place_and_removed(engine: CloudEngine) -> None:
    first, second = (role_of_pods(engine, name) for name in ("first", "second"))
    settles(engine, fleet(("x", first), ("y", first)))
    before = given(engine)
    assert {of: role for of, (_, role) in before.items()} == {"x": first, "y": first}
    settles(engine, fleet(("y", second)))
    assert given(engine) == {"y": (before["y"][0], second)}
    settles(engine, fleet())
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
