"""Asks a Google Cloud project, over its REST APIs. Every call only reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from slicewright.doctor.ask.google.capacity import ask_keys, ask_reservations
from slicewright.doctor.ask.google.session import GoogleSession
from slicewright.doctor.ask.gpu_owners import ask_inside
from slicewright.doctor.checks.gke.capacity import keys_needed, reservations_needed
from slicewright.doctor.checks.gke.cluster import (
    APIS,
    GoogleAnswers,
    account_email,
    machines_needed,
)
from slicewright.doctor.checks.gke.constraints import constraints_needed, enforced
from slicewright.doctor.checks.gke.existing import ExistingGkeCluster
from slicewright.doctor.checks.gke.network import Subnet, gpu_subnets_needed
from slicewright.doctor.checks.gke.quotas import Quota
from slicewright.doctor.checks.gke.rights import batches, needed
from slicewright.doctor.checks.reach import may_ask, reach
from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.infra.manifests import GKE_PLUGIN, kubeconfig
from slicewright.infra.plan import GkeFleetPlan


def ask(fleet: GkeFleetPlan, project: str) -> GoogleAnswers:
    """Raises CannotAsk."""
    session = _Project(project)
    where = f"projects/{quote(project, safe=':')}"
    cluster, region = fleet.cluster, fleet.cluster.region
    location = f"{where}/locations/{cluster.location}"
    email = account_email(fleet, project)
    session.apis = apis = session.enabled(where)
    description = session.get(
        "container", f"{location}/clusters/{cluster.name}", "container.clusters.get"
    )
    return GoogleAnswers(
        project=project,
        apis=apis,
        quotas=session.quotas(f"{where}/regions/{region}", "compute.regions.get"),
        project_quotas=session.quotas(where, "compute.projects.get"),
        machines={
            (zone, machine): session.exists(
                "compute",
                f"{where}/zones/{zone}/machineTypes/{machine}",
                "compute.machineTypes.get",
            )
            for zone, machine in machines_needed(fleet)
        },
        versions=session.versions(location, cluster.release_channel),
        cluster=description if isinstance(description, NotAnswered) else description is not None,
        existing=_existing(description) if cluster.existing else None,
        account=session.exists(
            "iam", f"{where}/serviceAccounts/{quote(email)}", "iam.serviceAccounts.get"
        ),
        subnet=None
        if cluster.network is None
        else session.subnet(cluster.network.project, region, cluster.network.subnet),
        gpu_subnets={
            name: session.subnet(None, region, name) for name in gpu_subnets_needed(fleet)
        },
        reservations=ask_reservations(session, reservations_needed(fleet, project)),
        keys=ask_keys(session, keys_needed(fleet)),
        lacking=session.lacking(where, needed(fleet)),
        constraints={
            name: session.enforced(f"{where}/policies/{name}") for name in constraints_needed(fleet)
        },
        shared_by=session.shared_by(where)
        if cluster.network is not None and cluster.network.project not in (None, project)
        else None,
    )


def _existing(description: Mapping[str, Any] | NotAnswered | None) -> ExistingGkeCluster | None:
    """description: GKE's description of the cluster. None: it does not exist, or is unknown."""
    if description is None or isinstance(description, NotAnswered):
        return None
    endpoints = description.get("controlPlaneEndpointsConfig", {})
    dns = endpoints.get("dnsEndpointConfig", {})
    private = bool(description.get("privateClusterConfig", {}).get("enablePrivateEndpoint"))
    has_address = endpoints.get("ipEndpointsConfig", {}).get("enabled", True)
    # Chooses the endpoint in the same way as infra/components/gke/existing_cluster.py.
    by_name = bool(dns.get("allowExternalTraffic")) and (private or not has_address)
    server = dns.get("endpoint") if by_name else description.get("endpoint")
    reached = reach(f"https://{server}") if server else NotAnswered(why="it has no endpoint yet")
    return ExistingGkeCluster(
        status=description["status"],
        version=description.get("currentMasterVersion", ""),
        autopilot=bool(description.get("autopilot", {}).get("enabled")),
        workload_pool=description.get("workloadIdentityConfig", {}).get("workloadPool"),
        dataplane_v2=description.get("networkConfig", {}).get("datapathProvider")
        == "ADVANCED_DATAPATH",
        multi_networking=bool(description.get("networkConfig", {}).get("enableMultiNetworking")),
        collectors=bool(
            description.get("monitoringConfig", {})
            .get("managedPrometheusConfig", {})
            .get("enabled")
        ),
        private=private and not by_name,
        pools=frozenset(pool["name"] for pool in description.get("nodePools", ())),
        reach=reached,
        inside=ask_inside(
            kubeconfig(
                cluster=description["name"],
                server=f"https://{server}",
                # The certificate of a DNS endpoint is a public one.
                ca_data=None if by_name else description["masterAuth"]["clusterCaCertificate"],
                plugin=GKE_PLUGIN,
            )
        )
        if may_ask(reached)
        else None,
    )


class _Project(GoogleSession):
    def enabled(self, where: str) -> Answer[Mapping[str, bool]]:
        """The API's short name -> whether it is on. This first question also tests the token."""
        names = "&".join(f"names={where}/services/{name}.googleapis.com" for name in APIS)
        response = self.get(
            "serviceusage", f"{where}/services:batchGet?{names}", "serviceusage.services.get"
        )
        if isinstance(response, NotAnswered):
            return response
        if response is None:
            return NotAnswered(why=f"there is no project {self.project}")
        return {
            api["name"].rpartition("/")[2].partition(".")[0]: api["state"] == "ENABLED"
            for api in response["services"]
        }

    def quotas(self, path: str, right: str) -> Answer[Mapping[str, Quota]]:
        """path: a region, or the project for the quotas of all regions together."""
        response = self.get("compute", path, right)
        if isinstance(response, NotAnswered):
            return response
        if response is None:
            return NotAnswered(why=f"Compute Engine has no {path}")
        return {
            quota["metric"]: Quota(limit=float(quota["limit"]), usage=float(quota.get("usage", 0)))
            for quota in response.get("quotas", ())
        }

    def versions(self, location: str, channel: str) -> Answer[frozenset[str]]:
        response = self.get("container", f"{location}/serverConfig", "container.clusters.list")
        if isinstance(response, NotAnswered):
            return response
        if response is None:
            return NotAnswered(why=f"GKE has no location {location.rpartition('/')[2]}")
        return frozenset(
            version
            for release_channel in response.get("channels", ())
            if release_channel.get("channel") == channel
            for version in release_channel.get("validVersions", ())
        )

    def exists(self, service: str, path: str, right: str) -> Answer[bool]:
        response = self.get(service, path, right)
        return response if isinstance(response, NotAnswered) else response is not None

    def subnet(self, owner: str | None, region: str, name: str) -> Answer[Subnet | None]:
        """owner: the subnet's project. None: the cluster's project."""
        owner = owner or self.project
        response = self.get(
            "compute",
            f"projects/{quote(owner, safe=':')}/regions/{region}/subnetworks/{name}",
            "compute.subnetworks.get",
            project=owner,
        )
        if response is None or isinstance(response, NotAnswered):
            return response
        return Subnet(
            vpc=f"projects/{response['network'].partition('/projects/')[2]}",
            ranges={
                r["rangeName"]: r["ipCidrRange"] for r in response.get("secondaryIpRanges", ())
            },
        )

    def lacking(self, where: str, rights: Sequence[str]) -> Answer[tuple[str, ...]]:
        """The rights that the caller lacks. The question itself needs no right."""
        held: set[str] = set()
        for batch in batches(rights):
            response = self.get(
                "cloudresourcemanager",
                f"{where}:testIamPermissions",
                "resourcemanager.projects.get",
                body={"permissions": list(batch)},
            )
            if isinstance(response, NotAnswered):
                return response
            if response is None:
                return NotAnswered(why=f"there is no project {self.project}")
            held |= {*response.get("permissions", ())}
        return tuple(sorted({*rights} - held))

    def enforced(self, policy: str) -> Answer[bool]:
        response = self.get("orgpolicy", f"{policy}:getEffectivePolicy", "orgpolicy.policy.get")
        if isinstance(response, NotAnswered):
            return response
        return response is not None and enforced(response)

    def shared_by(self, where: str) -> Answer[str | None]:
        """The host project of the Shared VPC that the project belongs to."""
        response = self.get("compute", f"{where}/getXpnHost", "compute.projects.get")
        if isinstance(response, NotAnswered):
            return response
        return None if response is None else response.get("name")
