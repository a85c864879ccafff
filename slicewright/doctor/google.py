"""Asks a Google Cloud project, over its REST APIs. Every call only reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from infra.plan import GkeFleetPlan
from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.doctor.gke_capacity_checks import keys_needed, reservations_needed
from slicewright.doctor.gke_checks import APIS, GoogleAnswers, account_email, machines_needed
from slicewright.doctor.gke_constraint_checks import constraints_needed, enforced
from slicewright.doctor.gke_existing_checks import ExistingGkeCluster
from slicewright.doctor.gke_network_checks import Subnet, gpu_subnets_needed
from slicewright.doctor.gke_quota_checks import Quota
from slicewright.doctor.gke_rights import batches, needed
from slicewright.doctor.google_capacity import ask_keys, ask_reservations
from slicewright.doctor.google_session import GoogleSession
from slicewright.doctor.reach import reach


def ask(fleet: GkeFleetPlan, project: str) -> GoogleAnswers:
    """Raises CannotAsk."""
    asked = _Project(project)
    where = f"projects/{quote(project, safe=':')}"
    cluster, region = fleet.cluster, fleet.cluster.region
    location = f"{where}/locations/{cluster.location}"
    email = account_email(fleet, project)
    asked.apis = apis = asked.enabled(where)
    found = asked.get("container", f"{location}/clusters/{cluster.name}", "container.clusters.get")
    return GoogleAnswers(
        project=project,
        apis=apis,
        quotas=asked.quotas(f"{where}/regions/{region}", "compute.regions.get"),
        project_quotas=asked.quotas(where, "compute.projects.get"),
        machines={
            (zone, machine): asked.exists(
                "compute",
                f"{where}/zones/{zone}/machineTypes/{machine}",
                "compute.machineTypes.get",
            )
            for zone, machine in machines_needed(fleet)
        },
        versions=asked.versions(location, cluster.release_channel),
        cluster=found if isinstance(found, NotAnswered) else found is not None,
        existing=_existing(found) if cluster.existing else None,
        account=asked.exists(
            "iam", f"{where}/serviceAccounts/{quote(email)}", "iam.serviceAccounts.get"
        ),
        subnet=None
        if cluster.network is None
        else asked.subnet(cluster.network.project, region, cluster.network.subnet),
        gpu_subnets={name: asked.subnet(None, region, name) for name in gpu_subnets_needed(fleet)},
        reservations=ask_reservations(asked, reservations_needed(fleet, project)),
        keys=ask_keys(asked, keys_needed(fleet)),
        lacking=asked.lacking(where, needed(fleet)),
        constraints={
            name: asked.enforced(f"{where}/policies/{name}") for name in constraints_needed(fleet)
        },
        shared_by=asked.shared_by(where)
        if cluster.network is not None and cluster.network.project not in (None, project)
        else None,
    )


def _existing(found: Mapping[str, Any] | NotAnswered | None) -> ExistingGkeCluster | None:
    """found: GKE's description of the cluster. None: it does not exist, or is unknown."""
    if found is None or isinstance(found, NotAnswered):
        return None
    endpoints = found.get("controlPlaneEndpointsConfig", {})
    dns = endpoints.get("dnsEndpointConfig", {})
    private = bool(found.get("privateClusterConfig", {}).get("enablePrivateEndpoint"))
    has_address = endpoints.get("ipEndpointsConfig", {}).get("enabled", True)
    # Chooses the endpoint in the same way as infra/components/existing_gke_cluster.py.
    by_name = bool(dns.get("allowExternalTraffic")) and (private or not has_address)
    server = dns.get("endpoint") if by_name else found.get("endpoint")
    return ExistingGkeCluster(
        status=found["status"],
        version=found.get("currentMasterVersion", ""),
        autopilot=bool(found.get("autopilot", {}).get("enabled")),
        workload_pool=found.get("workloadIdentityConfig", {}).get("workloadPool"),
        dataplane_v2=found.get("networkConfig", {}).get("datapathProvider") == "ADVANCED_DATAPATH",
        multi_networking=bool(found.get("networkConfig", {}).get("enableMultiNetworking")),
        collectors=bool(
            found.get("monitoringConfig", {}).get("managedPrometheusConfig", {}).get("enabled")
        ),
        private=private and not by_name,
        pools=frozenset(pool["name"] for pool in found.get("nodePools", ())),
        reach=reach(f"https://{server}") if server else NotAnswered(why="it has no endpoint yet"),
    )


class _Project(GoogleSession):
    def enabled(self, where: str) -> Answer[Mapping[str, bool]]:
        """The API's short name -> whether it is on. This first question also tests the token."""
        names = "&".join(f"names={where}/services/{name}.googleapis.com" for name in APIS)
        found = self.get(
            "serviceusage", f"{where}/services:batchGet?{names}", "serviceusage.services.get"
        )
        if isinstance(found, NotAnswered):
            return found
        if found is None:
            return NotAnswered(why=f"there is no project {self.project}")
        return {
            one["name"].rpartition("/")[2].partition(".")[0]: one["state"] == "ENABLED"
            for one in found["services"]
        }

    def quotas(self, path: str, right: str) -> Answer[Mapping[str, Quota]]:
        """path: a region, or the project for the quotas of all regions together."""
        found = self.get("compute", path, right)
        if isinstance(found, NotAnswered):
            return found
        if found is None:
            return NotAnswered(why=f"Compute Engine has no {path}")
        return {
            one["metric"]: Quota(limit=float(one["limit"]), usage=float(one.get("usage", 0)))
            for one in found.get("quotas", ())
        }

    def versions(self, location: str, channel: str) -> Answer[frozenset[str]]:
        found = self.get("container", f"{location}/serverConfig", "container.clusters.list")
        if isinstance(found, NotAnswered):
            return found
        if found is None:
            return NotAnswered(why=f"GKE has no location {location.rpartition('/')[2]}")
        return frozenset(
            version
            for one in found.get("channels", ())
            if one.get("channel") == channel
            for version in one.get("validVersions", ())
        )

    def exists(self, service: str, path: str, right: str) -> Answer[bool]:
        found = self.get(service, path, right)
        return found if isinstance(found, NotAnswered) else found is not None

    def subnet(self, owner: str | None, region: str, name: str) -> Answer[Subnet | None]:
        """owner: the subnet's project. None: the cluster's project."""
        owner = owner or self.project
        found = self.get(
            "compute",
            f"projects/{quote(owner, safe=':')}/regions/{region}/subnetworks/{name}",
            "compute.subnetworks.get",
            project=owner,
        )
        if found is None or isinstance(found, NotAnswered):
            return found
        return Subnet(
            vpc=f"projects/{found['network'].partition('/projects/')[2]}",
            ranges={r["rangeName"]: r["ipCidrRange"] for r in found.get("secondaryIpRanges", ())},
        )

    def lacking(self, where: str, rights: Sequence[str]) -> Answer[tuple[str, ...]]:
        """The rights that the caller lacks. The question itself needs no right."""
        held: set[str] = set()
        for asked in batches(rights):
            found = self.get(
                "cloudresourcemanager",
                f"{where}:testIamPermissions",
                "resourcemanager.projects.get",
                body={"permissions": list(asked)},
            )
            if isinstance(found, NotAnswered):
                return found
            if found is None:
                return NotAnswered(why=f"there is no project {self.project}")
            held |= {*found.get("permissions", ())}
        return tuple(sorted({*rights} - held))

    def enforced(self, policy: str) -> Answer[bool]:
        found = self.get("orgpolicy", f"{policy}:getEffectivePolicy", "orgpolicy.policy.get")
        if isinstance(found, NotAnswered):
            return found
        return found is not None and enforced(found)

    def shared_by(self, where: str) -> Answer[str | None]:
        """The host project of the Shared VPC that the project belongs to."""
        found = self.get("compute", f"{where}/getXpnHost", "compute.projects.get")
        if isinstance(found, NotAnswered):
            return found
        return None if found is None else found.get("name")
