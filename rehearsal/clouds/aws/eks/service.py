"""The API of the simulated EKS."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.fleets import Fleets
from slicewright.rehearsal.clouds.aws.ec2.instances import Instances
from slicewright.rehearsal.clouds.aws.ec2.launch_templates import LaunchTemplates
from slicewright.rehearsal.clouds.aws.eks.access_entries import AccessEntries
from slicewright.rehearsal.clouds.aws.eks.addons import Addons
from slicewright.rehearsal.clouds.aws.eks.autoscaler import Autoscaler
from slicewright.rehearsal.clouds.aws.eks.capacity import OF_GROUPS
from slicewright.rehearsal.clouds.aws.eks.clusters import Clusters
from slicewright.rehearsal.clouds.aws.eks.karpenter import Karpenter
from slicewright.rehearsal.clouds.aws.eks.karpenter_account import Services
from slicewright.rehearsal.clouds.aws.eks.node_groups import NodeGroups
from slicewright.rehearsal.clouds.aws.eks.pod_identities import PodIdentities
from slicewright.rehearsal.clouds.aws.eks.updates import Updates
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.instance_profiles import InstanceProfiles
from slicewright.rehearsal.clouds.aws.state import (
    ACCESS_ENTRIES,
    ADDONS,
    CLUSTERS,
    NODE_GROUPS,
    POD_IDENTITIES,
)
from slicewright.rehearsal.clouds.aws.zones import in_known_regions
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError


class Eks:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._updates = Updates(context)
        self._clusters = Clusters(context, self._updates)
        self._node_groups = NodeGroups(context, self._clusters, self._updates)
        self._pod_identities = PodIdentities(context, self._clusters)
        self._addons = Addons(context, self._clusters, self._updates, self._pod_identities)
        self._autoscaler = Autoscaler(context, self._node_groups)
        services = Services(
            instances=Instances(context, OF_GROUPS.instances),
            fleets=Fleets(context, OF_GROUPS),
            templates=LaunchTemplates(context),
            profiles=InstanceProfiles(context),
        )
        self._karpenter = Karpenter(context, services)
        self._access_entries = AccessEntries(context, self._clusters)
        for part in (self._clusters, self._node_groups, self._addons):
            context.tasks.register(part.tasks())

    def methods(self) -> Methods:
        handlers = {
            **self._clusters.methods(),
            **self._node_groups.methods(),
            **self._addons.methods(),
            **self._pod_identities.methods(),
            **self._access_entries.methods(),
            **self._updates.methods(),
            "TagResource": self._tag,
            "UntagResource": self._untag,
        }
        return in_known_regions(handlers, _no_region)

    def inventory(self) -> list[JsonObject]:
        resources: list[JsonObject] = [
            {"kind": "eks.cluster", "name": key} for key, _ in self._store.items(CLUSTERS)
        ]
        resources += [
            {"kind": "eks.nodegroup", "name": key, "nodes": len(g["nodes"])}
            for key, g in self._store.items(NODE_GROUPS)
        ]
        resources += [
            {"kind": "eks.accessEntry", "name": key}
            for key, entry in self._store.items(ACCESS_ENTRIES)
            if not entry.get("_creator")
        ]
        resources += [
            {"kind": "eks.podIdentityAssociation", "name": key}
            for key, association in self._store.items(POD_IDENTITIES)
            if "ownerArn" not in association
        ]
        return resources + [
            {"kind": "eks.addon", "name": key} for key, _ in self._store.items(ADDONS)
        ]

    def look_around(self) -> None:
        """What the cloud does of itself from time to time."""
        self._node_groups.retry()
        self._autoscaler.look_around()
        self._karpenter.look_around()

    def restart_control_planes(self) -> None:
        self._clusters.restart_control_planes()

    def _tag(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return self._retag(body["resourceArn"], add=body["tags"], remove=[])

    def _untag(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return self._retag(body["resourceArn"], add={}, remove=body["tagKeys"])

    def _retag(self, arn: str, *, add: JsonObject, remove: list[str]) -> JsonObject:
        def changed(resource: JsonObject) -> JsonObject:
            tags = resource.get("tags", {}) | add
            remaining = {k: v for k, v in tags.items() if k not in remove}
            if len(remaining) > 50:
                raise aws_error(
                    "BadRequestException", f"A resource has at most 50 tags, not {len(remaining)}."
                )
            return remaining

        with self._store.lock:
            for key, cluster in self._store.items(CLUSTERS):
                if cluster["cluster"]["arn"] == arn:
                    cluster["cluster"]["tags"] = changed(cluster["cluster"])
                    self._store.put(CLUSTERS, key, cluster)
                    return {}
            for key, group in self._store.items(NODE_GROUPS):
                if group["nodegroup"]["nodegroupArn"] == arn:
                    group["nodegroup"]["tags"] = changed(group["nodegroup"])
                    self._store.put(NODE_GROUPS, key, group)
                    return {}
            for key, addon in self._store.items(ADDONS):
                if addon["addonArn"] == arn:
                    addon["tags"] = changed(addon)
                    self._store.put(ADDONS, key, addon)
                    return {}
            for key, association in self._store.items(POD_IDENTITIES):
                if association["associationArn"] == arn:
                    association["tags"] = changed(association)
                    self._store.put(POD_IDENTITIES, key, association)
                    return {}
            for key, entry in self._store.items(ACCESS_ENTRIES):
                if entry["accessEntryArn"] == arn:
                    self._store.put(ACCESS_ENTRIES, key, entry | {"tags": changed(entry)})
                    return {}
        raise aws_error("NotFoundException", f"The resource {arn} does not exist.", code=404)


def _no_region(region: str) -> CloudError:
    """What EKS answers in a region that is not enabled for the account."""
    return aws_error(
        "UnrecognizedClientException",
        f"The security token included in the request is invalid ({region} is not a region of this "
        "account)",
        code=403,
    )
