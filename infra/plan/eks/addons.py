"""The add-ons of an EKS cluster, by the rules of the EKS API and slicewright's needs."""

from __future__ import annotations

import json
from typing import Any, Final

from slicewright.infra import stack_file
from slicewright.infra.plan.eks.identities import AGENT, OF_ADDONS
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.clusters import EksAddonPlan

NODE_MONITORING: Final = "eks-node-monitoring-agent"
_ALWAYS: Final = ("coredns", "kube-proxy", "vpc-cni")
_POLICIES = "EKS user guide, limit pod traffic with Kubernetes network policies"


def addons_of(cluster: stack_file.EksCluster) -> Checked[tuple[EksAddonPlan, ...]]:
    """The add-ons of a new cluster. Empty for an existing one, which keeps its own."""
    if cluster.existing:
        return ()
    yield from _check_network_policy(cluster)
    yield from _check_kube_proxy(cluster)
    addons = []
    for name in sorted({*_ALWAYS, *cluster.addons, *_with_identities(cluster)}):
        addon = cluster.addons.get(name, stack_file.EksAddon())
        settings = addon.settings
        if name == "vpc-cni":
            # Without it, NetworkPolicies have no effect.
            settings = {**(settings or {}), "enableNetworkPolicy": "true"}
        addons.append(
            EksAddonPlan(
                name=name,
                version=addon.version,
                settings=None if settings is None else json.dumps(settings, sort_keys=True),
                identity=OF_ADDONS.get(name),
            )
        )
    return tuple(addons)


def _with_identities(cluster: stack_file.EksCluster) -> tuple[str, ...]:
    """The add-on that hands credentials of IAM to other add-ons and pods, if any needs them."""
    needed = OF_ADDONS.keys() & {*cluster.addons} or cluster.pod_identities
    return (AGENT,) if needed or cluster.autoscaler is not None else ()


@rule("eks-addon-network-policy")
def _check_network_policy(cluster: stack_file.EksCluster) -> Checked[None]:
    """Agents and controller are protected by NetworkPolicies (docs/reference/integrity.md)."""
    settings = _settings(cluster, "vpc-cni")
    at = ("cluster", "addons", "vpc-cni", "settings")
    if settings.get("enableNetworkPolicy", "true") != "true":
        yield refuse(
            (*at, "enableNetworkPolicy"),
            "slicewright's NetworkPolicies would have no effect",
            'write "true", in quotes, or leave it out',
            _POLICIES,
        )
    agent = settings.get("nodeAgent")
    if isinstance(agent, dict) and str(agent.get("enabled", True)).casefold() != "true":
        yield refuse(
            (*at, "nodeAgent", "enabled"),
            "the agent that enforces NetworkPolicies would not run",
            "leave it out",
            "aws/amazon-vpc-cni-k8s, chart aws-vpc-cni",
        )


@rule("eks-addon-kube-proxy")
def _check_kube_proxy(cluster: stack_file.EksCluster) -> Checked[None]:
    """Its version is Kubernetes' own, and EKS has one for each version of a cluster."""
    addon = cluster.addons.get("kube-proxy")
    if addon is None or addon.version is None or cluster.version is None:
        return
    of_proxy, of_cluster = (
        tuple(int(part) for part in text.split(".")[:2])
        for text in (addon.version.removeprefix("v"), cluster.version)
    )
    if of_proxy > of_cluster:
        yield refuse(
            ("cluster", "addons", "kube-proxy", "version"),
            f"kube-proxy {addon.version} is newer than the cluster's Kubernetes {cluster.version}",
            f"write a version that starts with v{cluster.version}., or raise cluster.version",
            "Kubernetes docs, version skew policy: kube-proxy",
        )


def _settings(cluster: stack_file.EksCluster, addon: str) -> dict[str, Any]:
    stated_addon = cluster.addons.get(addon)
    return dict(stated_addon.settings or {}) if stated_addon is not None else {}
