"""A Google Cloud project: everything that GKE left there of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from slicewright.doctor.ask.google.session import GoogleSession
from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.teardown.sweep.account import DeletionPostponed, DeletionRefused, Listing, Outcome
from slicewright.teardown.sweep.ingresses import ingress_leftovers
from slicewright.teardown.sweep.leftovers import (
    GoogleNetwork,
    Leftover,
    disk_leftovers,
    network_leftovers,
    snapshot_leftovers,
)
from slicewright.teardown.sweep.life import Life, in_iso

_MISSING: Final = "the right "
"""The beginning of GoogleSession's message about a missing right."""
_IN_RIGHTS: Final[Mapping[str, str]] = {
    "global/addresses": "globalAddresses",
    "global/forwardingRules": "globalForwardingRules",
    "regions/backendServices": "regionBackendServices",
    "regions/healthChecks": "regionHealthChecks",
    "regions/sslCertificates": "regionSslCertificates",
    "regions/targetHttpProxies": "regionTargetHttpProxies",
    "regions/targetHttpsProxies": "regionTargetHttpsProxies",
    "regions/urlMaps": "regionUrlMaps",
}
"""Place and collection of a path -> the collection's name in rights, if it differs."""


class GoogleProject:
    """One project, asked about one cluster. Raises CannotAsk."""

    def __init__(self, cluster: str, location: str, project: str) -> None:
        self._cluster = cluster
        self._location = location
        self._project = f"projects/{quote(project, safe=':')}"
        self._session = GoogleSession(project)

    def cluster_exists(self) -> Answer[bool]:
        path = f"{self._project}/locations/{self._location}/clusters/{self._cluster}"
        cluster = self._session.get("container", path, "container.clusters.get")
        return cluster if isinstance(cluster, NotAnswered) else cluster is not None

    def life(self) -> Answer[Life]:
        """Returns an empty life if there is no such cluster."""
        path = f"{self._project}/locations/{self._location}/clusters/{self._cluster}"
        cluster = self._session.get("container", path, "container.clusters.get")
        if isinstance(cluster, NotAnswered):
            return cluster
        return Life() if cluster is None else Life(begun=in_iso(cluster.get("createTime")))

    def look(self, life: Life) -> Listing:
        refused: list[NotAnswered] = []

        def listed(collection: str, *, aggregated: bool = True) -> list[dict[str, Any]]:
            from_network = self._listed(collection, aggregated=aggregated)
            if isinstance(from_network, NotAnswered):
                refused.append(from_network)
                return []
            return from_network

        disks = disk_leftovers(listed("disks"), self._cluster, self._location)
        keys = life.named | life.named_if_later | life.retained
        snapshots = snapshot_leftovers(
            listed("snapshots", aggregated=False),
            disks,
            frozenset(identity for kind, identity in keys if kind == "snapshot"),
        )
        network = GoogleNetwork(
            firewalls=listed("firewalls", aggregated=False),
            forwarding_rules=listed("forwardingRules"),
            target_pools=listed("targetPools"),
            backend_services=listed("backendServices"),
            endpoint_groups=listed("networkEndpointGroups"),
            addresses=listed("addresses"),
            target_proxies=[*listed("targetHttpProxies"), *listed("targetHttpsProxies")],
            url_maps=listed("urlMaps"),
            health_checks=listed("healthChecks"),
            certificates=listed("sslCertificates"),
        )
        name_taken = self._name_taken()
        if isinstance(name_taken, NotAnswered):
            refused.append(name_taken)
        # Without an answer, a network tag proves nothing: another cluster may have the same tag.
        from_network = network_leftovers(
            network,
            self._cluster,
            stack_networks=life.networks,
            name_taken=name_taken is not False,
            is_of_this_life=life.precedes,
        )
        leftovers = [*disks, *snapshots, *from_network, *ingress_leftovers(network, from_network)]
        return Listing(
            leftovers=[life.judged(leftover) for leftover in leftovers], not_asked=refused
        )

    def delete(self, leftover: Leftover) -> Outcome:
        answer = self._session.delete("compute", leftover.id, _right_to_delete(leftover.id))
        if not isinstance(answer, NotAnswered):
            return None
        return (
            DeletionRefused(why=answer.why)
            if answer.why.startswith(_MISSING)
            else DeletionPostponed(why=answer.why)
        )

    def _name_taken(self) -> Answer[bool]:
        """True if another location of the project has a cluster of this name."""
        path = f"{self._project}/locations/-/clusters"
        response = self._session.get("container", path, "container.clusters.list")
        if isinstance(response, NotAnswered):
            return response
        return any(
            cluster["name"] == self._cluster and cluster["location"] != self._location
            for cluster in (response or {}).get("clusters", ())
        )

    def _listed(self, collection: str, *, aggregated: bool) -> Answer[list[dict[str, Any]]]:
        """Returns all items of the project, page by page."""
        place = "aggregated" if aggregated else "global"
        path = f"{self._project}/{place}/{collection}"
        resources: list[dict[str, Any]] = []
        token = ""
        while True:
            page = self._session.get(
                "compute",
                f"{path}?pageToken={quote(token)}" if token else path,
                f"compute.{collection}.list",
            )
            if isinstance(page, NotAnswered):
                return page
            if page is None:
                return NotAnswered(why=f"there is no {self._project}")
            resources += _members(page, collection) if aggregated else page.get("items", ())
            token = str(page.get("nextPageToken", ""))
            if not token:
                return resources


def _members(page: Mapping[str, Any], collection: str) -> Iterable[dict[str, Any]]:
    """The items of an aggregated list, which groups them by zone or region, or under `global`."""
    for place in page.get("items", {}).values():
        yield from place.get(collection, ())


def _right_to_delete(path: str) -> str:
    """path: projects/P/global/COLLECTION/NAME, or with zones/Z or regions/R instead."""
    _, _, place, *_, collection, _ = path.split("/")
    return f"compute.{_IN_RIGHTS.get(f'{place}/{collection}', collection)}.delete"
