"""Controllers in a cluster that act on the account with the role of their pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.eks.pod_identities import role_of_pods
from slicewright.rehearsal.clouds.aws.state import CLUSTERS, POD_IDENTITIES, ClusterRecord
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.node_api import NodeApi


@dataclass(frozen=True, kw_only=True)
class PodIdentity:
    namespace: str
    service_account: str


@dataclass(frozen=True, kw_only=True)
class InstalledIn:
    """A cluster in which such a controller may run."""

    context: Context
    region: str
    name: str
    record: ClusterRecord
    api: NodeApi

    @property
    def key(self) -> str:
        return f"{self.region}/{self.name}"

    def deployments(self) -> Sequence[JsonObject]:
        return self.api.listed("/apis/apps/v1/deployments")

    def role(self, identity: PodIdentity) -> JsonObject | None:
        """What the account knows of the pods' role. None: they have none."""
        return role_of_pods(
            self.context, self.region, self.name, identity.namespace, identity.service_account
        )


def clusters(context: Context) -> Iterator[InstalledIn]:
    """Those that live and give a role to any pod at all."""
    for key, record in context.store.items(CLUSTERS):
        region, name = key.split("/")
        if record["cluster"]["status"] == "DELETING" or not context.store.values(
            POD_IDENTITIES, prefix=f"{key}/"
        ):
            continue
        yield InstalledIn(
            context=context,
            region=region,
            name=name,
            record=record,
            api=context.planes.nodes(name),
        )


def running_containers(
    deployments: Sequence[JsonObject],
) -> Iterator[tuple[PodIdentity, JsonObject]]:
    """Of Deployments that have an available pod."""
    for deployment in deployments:
        if not (deployment.get("status") or {}).get("availableReplicas"):
            continue
        pod = deployment["spec"]["template"]["spec"]
        identity = PodIdentity(
            namespace=deployment["metadata"]["namespace"],
            service_account=pod.get("serviceAccountName", "default"),
        )
        for container in pod["containers"]:
            yield identity, container
