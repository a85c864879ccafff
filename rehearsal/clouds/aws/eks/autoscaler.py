"""cluster-autoscaler on EKS, as far as it adds nodes for pods that wait and removes empty ones.

It acts where its Deployment runs in the cluster, with the arguments of its container and the rights
of the role that its pods have. Nodes with pods that could move elsewhere stay. Source:
kubernetes/autoscaler, cluster-autoscaler/FAQ.md and cloudprovider/aws.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.eks.installed_controllers import (
    PodIdentity,
    clusters,
    running_containers,
)
from slicewright.rehearsal.clouds.aws.eks.node_groups import NodeGroups
from slicewright.rehearsal.clouds.aws.eks.nodes import sample_node
from slicewright.rehearsal.clouds.aws.eks.template_data import data_of, types_of
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.machines import machines
from slicewright.rehearsal.clouds.aws.role_policies import allows
from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS, NodeGroupRecord
from slicewright.rehearsal.clouds.core.autoscaler_events import tell_pods
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.node_api import NodeApi
from slicewright.rehearsal.clouds.core.pod_fit import SchedulableNode, amount, empty_node
from slicewright.rehearsal.clouds.core.scaling import Group, Limits, is_usable, scale_up, waiting

ACCELERATOR = "k8s.amazonaws.com/accelerator"
"""The label by which it knows GPU nodes on AWS."""
_RESOURCES = "k8s.io/cluster-autoscaler/node-template/resources/"
_GPU = "nvidia.com/gpu"
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a container of cluster-autoscaler."""

    identity: PodIdentity
    tags: tuple[str, ...]
    """Keys that an Auto Scaling group must have to be one of its own."""
    scale_down: bool = True
    unneeded_s: float = 600.0
    delay_after_add_s: float = 600.0


class Autoscaler:
    def __init__(
        self, context: Context, groups: NodeGroups, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = context
        self._groups = groups
        self._clock = clock
        self._empty_since: dict[tuple[str, str], float] = {}
        """Cluster's key and node's name -> seconds of the clock."""
        self._added_at: dict[str, float] = {}
        """By cluster's key."""

    def look_around(self) -> None:
        for cluster in clusters(self._context):
            settings = settings_of(cluster.deployments())
            role = cluster.role(settings.identity) if settings is not None else None
            if (
                settings is not None
                and role is not None
                and allows(role, "autoscaling:DescribeAutoScalingGroups")
            ):
                self._look(cluster.key, settings, role, cluster.api)

    def _look(self, key: str, settings: Settings, role: JsonObject, api: NodeApi) -> None:
        groups = [
            item
            for item in self._context.store.values(NODE_GROUPS, prefix=f"{key}/")
            if set(settings.tags) <= asg_tags(item).keys()
        ]
        nodes = {n["metadata"]["name"]: n for n in api.listed("/api/v1/nodes")}
        pods = api.listed("/api/v1/pods")
        if self._grow(groups, nodes, waiting(pods), role, api):
            self._added_at[key] = self._clock()
        elif settings.scale_down:
            self._shrink(key, groups, nodes, pods, settings, role)

    def _grow(
        self,
        own_groups: Sequence[NodeGroupRecord],
        nodes: Mapping[str, JsonObject],
        pods: Sequence[JsonObject],
        role: JsonObject,
        api: NodeApi,
    ) -> bool:
        """Whether nodes are added."""
        if not pods:
            return False
        groups = [self._group(item, nodes, role) for item in own_groups]
        limits = {
            item["key"]: Limits(total=item["nodegroup"]["scalingConfig"]["maxSize"], per_zone=None)
            for item in own_groups
        }
        grown = False
        for step in scale_up(pods, groups, limits):
            item = next(record for record in own_groups if record["key"] == step.pool)
            if not _may(role, "autoscaling:SetDesiredCapacity", item):
                continue
            desired = item["nodegroup"]["scalingConfig"]["desiredSize"] + step.added
            if self._groups.resize(step.pool, desired):
                grown = True
                (group,) = item["nodegroup"]["resources"]["autoScalingGroups"]
                tell_pods(api, step, group=group["name"])
        return grown

    def _group(
        self, item: NodeGroupRecord, nodes: Mapping[str, JsonObject], role: JsonObject
    ) -> Group:
        joined = [nodes[n["name"]] for n in item["nodes"] if n["name"] in nodes]
        usable = [node for node in joined if is_usable(node, accelerator=ACCELERATOR)]
        size = max(item["nodegroup"]["scalingConfig"]["desiredSize"], len(item["nodes"]))
        # A node of the group says best what the next will offer.
        node = empty_node(usable[0], gpus={}) if usable else self._template(item, role)
        return Group(pool=item["key"], zone="", node=node, size=size, joining=size - len(usable))

    def _template(self, item: NodeGroupRecord, role: JsonObject) -> SchedulableNode:
        """A node of a group without any: the machine type's GPUs, or the resources that its tags
        name instead. Source: aws_manager.go, buildNodeFromTemplate.
        """
        group = item["nodegroup"]
        kind = types_of(group, data_of(self._context, item))[0]
        node = sample_node(self._context, item)
        gpus = {_GPU: Decimal(machines()[kind].gpu_count)}
        arn = group["nodegroupArn"]
        if not allows(role, "eks:DescribeNodegroup", resource=arn):
            labels = {k: v for k, v in node["metadata"]["labels"].items() if not _is_own(k, group)}
            return replace(empty_node(node, gpus=gpus), labels=labels, taints=[])
        stated = {
            tag.removeprefix(_RESOURCES): amount(value)
            for tag, value in group.get("tags", {}).items()
            if tag.startswith(_RESOURCES)
        }
        return empty_node(node, gpus=gpus | stated)

    def _shrink(
        self,
        key: str,
        groups: Sequence[NodeGroupRecord],
        nodes: Mapping[str, JsonObject],
        pods: Sequence[JsonObject],
        settings: Settings,
        role: JsonObject,
    ) -> None:
        now = self._clock()
        empty = empty_nodes(nodes.values(), pods)
        for name in nodes:
            if name in empty:
                self._empty_since.setdefault((key, name), now)
            else:
                self._empty_since.pop((key, name), None)
        if now - self._added_at.get(key, -settings.delay_after_add_s) < settings.delay_after_add_s:
            return
        for item in groups:
            fewest = item["nodegroup"]["scalingConfig"]["minSize"]
            for node in list(item["nodes"]):
                since = self._empty_since.get((key, node["name"]))
                if (
                    since is not None
                    and now - since >= settings.unneeded_s
                    and item["nodegroup"]["scalingConfig"]["desiredSize"] > fewest
                    and _may(role, "autoscaling:TerminateInstanceInAutoScalingGroup", item)
                    and self._groups.terminate(item["key"], node["name"])
                ):
                    item["nodegroup"]["scalingConfig"]["desiredSize"] -= 1
                    del self._empty_since[key, node["name"]]


def settings_of(deployments: Sequence[JsonObject]) -> Settings | None:
    """Of the first cluster-autoscaler that runs. None without one."""
    for identity, container in running_containers(deployments):
        line = [*container.get("command", ()), *container.get("args", ())]
        if not any(word.rpartition("/")[2] == "cluster-autoscaler" for word in line[:1]):
            continue
        flags = dict(word.removeprefix("--").partition("=")[::2] for word in line[1:])
        return Settings(
            identity=identity,
            tags=_tag_keys(flags.get("node-group-auto-discovery", "")),
            scale_down=flags.get("scale-down-enabled", "true") == "true",
            unneeded_s=seconds(flags.get("scale-down-unneeded-time", "10m")),
            delay_after_add_s=seconds(flags.get("scale-down-delay-after-add", "10m")),
        )
    return None


def seconds(duration: str) -> float:
    """Of a duration as Go writes it: 10m, 1h30m0s. Raises ValueError."""
    match = _DURATION.fullmatch(duration)
    if match is None or not duration:
        raise ValueError(f"{duration!r} is not a duration")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return 3600.0 * hours + 60 * minutes + rest


def asg_tags(item: NodeGroupRecord) -> Mapping[str, str]:
    """Of the Auto Scaling group: EKS gives it these, and none of the node group's own (AWS,
    containers-roadmap #724). Source: EKS user guide, managed node groups.
    """
    cluster = item["cluster"]
    return {
        "eks:cluster-name": cluster,
        "eks:nodegroup-name": item["nodegroup"]["nodegroupName"],
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"k8s.io/cluster-autoscaler/{cluster}": "owned",
        f"kubernetes.io/cluster/{cluster}": "owned",
    }


def empty_nodes(nodes: Any, pods: Sequence[JsonObject]) -> set[str]:
    """Names of the Ready nodes on which only pods of DaemonSets run, or ones that have ended.

    A node that holds its startup taint is not one of them: it has not started yet.
    """
    usable = {
        node["metadata"]["name"] for node in nodes if is_usable(node, accelerator=ACCELERATOR)
    }
    for pod in pods:
        owners = {o["kind"] for o in pod["metadata"].get("ownerReferences") or ()}
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if not ended and not owners & {"DaemonSet", "Node"}:
            usable.discard(pod["spec"].get("nodeName", ""))
    return usable


def _tag_keys(text: str) -> tuple[str, ...]:
    """`asg:tag=a,b` -> a, b; without it, a key that no group has."""
    return tuple(text.removeprefix("asg:tag=").split(",")) if text else ("",)


def _is_own(label: str, group: JsonObject) -> bool:
    """Whether it is of the node group rather than of every node of its machine type."""
    return label in group.get("labels", {}) or label.startswith("eks.amazonaws.com/")


def _may(role: JsonObject, action: str, item: NodeGroupRecord) -> bool:
    (group,) = item["nodegroup"]["resources"]["autoScalingGroups"]
    arn = (
        f"arn:aws:autoscaling:{item['region']}:{ACCOUNT}:autoScalingGroup:"
        f"{item['nodegroup']['nodegroupArn'].rpartition('/')[2]}:autoScalingGroupName/"
        f"{group['name']}"
    )
    return allows(role, action, resource=arn, tags=asg_tags(item))
