"""What `plan --diff` says of each key of a pool is what the clouds' providers do with what the
program gives them: their own difference, and the fields for which GKE recreates nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pulumi_aws
import pulumi_gcp
import pytest

from slicewright.infra import manifests, plan
from slicewright.infra.components.eks.cluster import EksCluster
from slicewright.infra.components.gke.cluster import GkeCluster
from slicewright.infra.components.gke.node_pools import REPLACE_ON_CHANGES
from slicewright.infra.plan import ChangeEffect, buildable
from slicewright.rehearsal.clouds.gcp.gke.node_pools import _CONFIG_RECREATES
from slicewright.rehearsal.plugins.bridge.provider import BridgedProvider
from slicewright.rehearsal.plugins.engine.plugin import Difference
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.engine.requests import CheckRequest, DiffRequest
from slicewright.rehearsal.plugins.providers.aws.provider import AwsProvider
from slicewright.rehearsal.plugins.providers.gcp.provider import GcpProvider
from tests.infra.plan.test_change_keys import ROWS, Row, planned, written
from tests.recorder import Recorder, record

# As in test_pairs_of_files_in_clouds.py, which is built on this one.
pytestmark = pytest.mark.clouds

POOLS = {
    "gke": ("gcp:container/nodePool:NodePool", "gke-a"),
    "eks": ("aws:eks/nodeGroup:NodeGroup", "eks-a"),
}
PROVIDERS: Mapping[str, type[BridgedProvider]] = {"gke": GcpProvider, "eks": AwsProvider}
ROLLS_ON_GKE = {f"nodeConfig.{field}" for field in (*_CONFIG_RECREATES, "resourceLabels")}
"""As the simulated GKE does, for which `gcfsConfig` and others have the same names."""
ROLLS = {
    "gke": {*ROLLS_ON_GKE, "nodeConfig.loggingVariant", "version"},
    "eks": {"version", "releaseVersion"},
}
TEMPLATE = ("aws:ec2/launchTemplate:LaunchTemplate", "eks-a")
"""Another version of it rolls its node group."""


@cache
def asked_for(cloud: str, text: str) -> Mapping[tuple[str, str], Properties]:
    """What the program gives the providers for a fleet in JSON: type and name -> inputs."""
    fleet = planned(json.loads(text))
    assert not buildable.unbuildable(fleet)
    recorder = Recorder()

    def deploy() -> None:
        if isinstance(fleet, plan.EksFleetPlan):
            EksCluster("eks", fleet, provider=pulumi_aws.Provider("aws", region="us-east-1"))
        else:
            assert isinstance(fleet, plan.GkeFleetPlan)
            provider = pulumi_gcp.Provider("gcp", project="p", region="us-central1")
            GkeCluster("gke", fleet, project="p", provider=provider)

    record(recorder, deploy, stack="s")
    return {(m.type, m.name): dict(m.inputs) for m in recorder.made}


def difference(cloud: str, resource: tuple[str, str], old: Any, new: Any) -> Difference:
    provider, (kind, name) = PROVIDERS[cloud](), resource

    def checked(before: Properties, given: Any) -> Properties:
        request = CheckRequest(
            urn="u",
            type=kind,
            name=name,
            old_inputs=before,
            new_inputs=given,
            random_seed=b"seed",
        )
        found = provider.check(request)
        assert not found.failures
        return found.inputs

    was = checked({}, old)
    request = DiffRequest(
        urn="u",
        type=kind,
        id="i",
        old_inputs=was,
        old_outputs=was,
        new_inputs=checked(was, new),
    )
    return provider.diff(request)


def effect_in_cloud(cloud: str, old: Mapping[Any, Any], new: Mapping[Any, Any]) -> ChangeEffect:
    """On the nodes of the pool `a`."""
    was, given = old[POOLS[cloud]], new[POOLS[cloud]]
    found = difference(cloud, POOLS[cloud], was, _as_the_engine_hands_it_over(was, given))
    detailed = found.detailed or {}
    if any(kind.endswith("-replace") for kind in detailed.values()):
        return ChangeEffect.REPLACE
    changed = {path.partition("[")[0] for path in detailed}
    # Of its options the recorder is not told.
    if any(path.startswith(REPLACE_ON_CHANGES) for path in detailed):
        return ChangeEffect.REPLACE
    if any(
        path == field or path.startswith(f"{field}.") for path in changed for field in ROLLS[cloud]
    ):
        return ChangeEffect.ROLL
    if TEMPLATE in old and difference(cloud, TEMPLATE, old[TEMPLATE], new[TEMPLATE]).detailed:
        return ChangeEffect.ROLL
    return ChangeEffect.IN_PLACE if detailed else ChangeEffect.NONE


def effect_by_karpenter(old: plan.EksFleetPlan, new: plan.EksFleetPlan) -> ChangeEffect:
    """Nodes drift when what they were made of changes. Source: karpenter.sh docs, "Drift"."""

    def made_of(fleet: plan.EksFleetPlan) -> list[Any]:
        asked = fleet.cluster.autoscaler
        assert isinstance(asked, plan.KarpenterPlan)
        made = {"role": "r", "subnet_ids": ["s"], "security_group": "g"}
        return [
            (manifests.node_pool(pool, asked)["template"], manifests.node_class(pool, **made))
            for pool in fleet.karpenter_pools
        ]

    assert made_of(old)
    return ChangeEffect.NONE if made_of(old) == made_of(new) else ChangeEffect.ROLL


def _as_the_engine_hands_it_over(old: Mapping[str, Any], new: Mapping[str, Any]) -> Any:
    """With `ignore_changes` of autoscaled pools, of which the recorder is not told."""
    if "autoscaling" not in new:
        return new
    kept = ("initialNodeCount", "nodeCount")
    given = {key: value for key, value in new.items() if key not in kept}
    return given | {key: old[key] for key in kept if key in old}


def cases() -> list[Any]:
    return [
        pytest.param(cloud, row, id=f"{cloud}-{row.key}")
        for cloud in POOLS
        for row in ROWS[cloud]
        if row.effect and row.where == "pools"
    ]


@pytest.mark.parametrize(("cloud", "row"), cases())
def test_a_change_rule_predicts_the_action_of_the_provider(cloud: str, row: Row) -> None:
    before, after = written(cloud, row.before), written(cloud, row.before, row.after)
    old, new = planned(before), planned(after)
    (told,) = plan.compare(old, new).pools
    if buildable.unbuildable(old) or buildable.unbuildable(new):
        return  # refused by `up`
    if isinstance(old, plan.EksFleetPlan) and old.karpenter_pools:
        assert isinstance(new, plan.EksFleetPlan)
        assert effect_by_karpenter(old, new) is told.effect
        return
    found = effect_in_cloud(
        cloud, asked_for(cloud, json.dumps(before)), asked_for(cloud, json.dumps(after))
    )
    if row.key == "node_pools.zones" and cloud == "gke":
        assert found is ChangeEffect.IN_PLACE, "GKE itself ends the nodes of zones that go"
        return
    if told.effect is ChangeEffect.ROLL and found <= ChangeEffect.IN_PLACE:
        # mig-manager repartitions the GPUs: nothing of the cloud's.
        assert any(c.rule.field == "mig_config" for c in told.changes)
        return
    assert found <= told.effect, "a node is lost of which `plan --diff` says that it stays"
    if told.effect >= ChangeEffect.ROLL:
        assert found is told.effect
