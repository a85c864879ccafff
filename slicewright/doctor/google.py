"""Asks a Google Cloud project, over its REST APIs. Every call reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from infra.plan import GkeFleetPlan, GkeNetworkPlan
from slicewright.doctor.findings import Answer, CannotAsk, NotAnswered
from slicewright.doctor.gke_checks import APIS, GoogleAnswers, Quota, account_email, machines_needed
from slicewright.doctor.gke_network_checks import Subnet

_ENDPOINTS: Final[Mapping[str, tuple[str, str]]] = {
    "compute": ("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "https://compute.googleapis.com/compute/v1/"),
    "container": ("GOOGLE_CONTAINER_CUSTOM_ENDPOINT", "https://container.googleapis.com/v1/"),
    "iam": ("GOOGLE_IAM_CUSTOM_ENDPOINT", "https://iam.googleapis.com/v1/"),
    "serviceusage": (
        "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT",
        "https://serviceusage.googleapis.com/v1/",
    ),
}
"""Variable of terraform-provider-google, which Pulumi's obeys, too, and what holds without it."""
_LOGIN = "run `gcloud auth application-default login`"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform.read-only"
_TIMEOUT = urllib3.Timeout(connect=10, read=30)
_RETRIES = urllib3.Retry(
    3,
    status_forcelist=[429, 502, 503, 504],
    backoff_factor=0.5,
    # A server may ask for hours.
    respect_retry_after_header=False,
)
_TOKENS = "https://oauth2.googleapis.com/token"


def ask(fleet: GkeFleetPlan, project: str) -> GoogleAnswers:
    """Raises CannotAsk."""
    asked = _Project(project)
    where = f"projects/{quote(project, safe=':')}"
    cluster, region = fleet.cluster, fleet.cluster.region
    location = f"{where}/locations/{cluster.location}"
    email = account_email(fleet, project)
    asked.apis = apis = asked.enabled(where)
    return GoogleAnswers(
        project=project,
        apis=apis,
        quotas=asked.quotas(f"{where}/regions/{region}"),
        machines={
            (zone, machine): asked.exists(
                "compute",
                f"{where}/zones/{zone}/machineTypes/{machine}",
                "compute.machineTypes.get",
            )
            for zone, machine in machines_needed(fleet)
        },
        versions=asked.versions(location, cluster.release_channel),
        cluster=asked.exists(
            "container", f"{location}/clusters/{cluster.name}", "container.clusters.get"
        ),
        account=asked.exists(
            "iam", f"{where}/serviceAccounts/{quote(email)}", "iam.serviceAccounts.get"
        ),
        subnet=None if cluster.network is None else asked.subnet(cluster.network, region),
    )


class _Project:
    def __init__(self, project: str) -> None:
        self._project = project
        self._token = _token()
        self.apis: Answer[Mapping[str, bool]] = {}

    def enabled(self, where: str) -> Answer[Mapping[str, bool]]:
        """By short name. Also the first question, which shows whether the token is good."""
        names = "&".join(f"names={where}/services/{name}.googleapis.com" for name in APIS)
        found = self._get(
            "serviceusage", f"{where}/services:batchGet?{names}", "serviceusage.services.get"
        )
        if isinstance(found, NotAnswered):
            return found
        if found is None:
            return NotAnswered(why=f"there is no project {self._project}")
        return {
            one["name"].rpartition("/")[2].partition(".")[0]: one["state"] == "ENABLED"
            for one in found["services"]
        }

    def quotas(self, region: str) -> Answer[Mapping[str, Quota]]:
        found = self._get("compute", region, "compute.regions.get")
        if isinstance(found, NotAnswered):
            return found
        if found is None:
            return NotAnswered(why=f"the project has no region {region.rpartition('/')[2]}")
        return {
            one["metric"]: Quota(limit=float(one["limit"]), usage=float(one.get("usage", 0)))
            for one in found.get("quotas", ())
        }

    def versions(self, location: str, channel: str) -> Answer[frozenset[str]]:
        found = self._get("container", f"{location}/serverConfig", "container.clusters.list")
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
        found = self._get(service, path, right)
        return found if isinstance(found, NotAnswered) else found is not None

    def subnet(self, network: GkeNetworkPlan, region: str) -> Answer[Subnet | None]:
        owner = network.project or self._project
        found = self._get(
            "compute",
            f"projects/{quote(owner, safe=':')}/regions/{region}/subnetworks/{network.subnet}",
            "compute.subnetworks.get",
            project=owner,
        )
        if found is None or isinstance(found, NotAnswered):
            return found
        return Subnet(
            vpc=f"projects/{found['network'].partition('/projects/')[2]}",
            ranges={r["rangeName"]: r["ipCidrRange"] for r in found.get("secondaryIpRanges", ())},
        )

    def _get(self, service: str, path: str, right: str, *, project: str | None = None) -> Any:
        """The answer; None where there is no such thing. Raises CannotAsk for a wrong token.

        right: the IAM permission that the question needs. project: where, if not in the stack's.
        """
        if isinstance(self.apis, Mapping) and self.apis.get(service) is False:
            return NotAnswered(why=f"{service}.googleapis.com is off")
        variable, default = _ENDPOINTS[service]
        url = f"{(os.environ.get(variable) or default).rstrip('/')}/{path}"
        try:
            answer = _pool(url).request(
                "GET",
                url,
                headers={"authorization": f"Bearer {self._token}"},
                timeout=_TIMEOUT,
                retries=_RETRIES,
            )
        except urllib3.exceptions.HTTPError as e:
            raise CannotAsk(f"{url.partition('?')[0]} cannot be reached: {e}") from None
        if answer.status == 404:
            return None
        if answer.status == 401:
            raise CannotAsk(f"Google refuses the credentials ({_said(answer.data)}); {_LOGIN}")
        if answer.status == 200:
            try:
                return json.loads(answer.data)
            except ValueError:
                raise CannotAsk(
                    f"{url.partition('?')[0]} answers with something else than JSON; is a proxy in "
                    "the way?"
                ) from None
        said = _said(answer.data)
        if answer.status != 403:
            return NotAnswered(why=f"HTTP {answer.status}: {said}")
        if b"SERVICE_DISABLED" in answer.data:
            return NotAnswered(
                why=f"{service}.googleapis.com is off",
                remedy=f"gcloud services enable {service}.googleapis.com --project {self._project}",
            )
        return NotAnswered(
            why=f"the right {right} is missing ({said})",
            remedy=f"let an administrator of project {project or self._project} allow {right}",
        )


@cache
def _pool_of(proxy: str | None) -> urllib3.PoolManager:
    return urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager()


def _pool(url: str) -> urllib3.PoolManager:
    """Through the proxy that the environment names for this URL, as Google's own clients go."""
    parts = urlsplit(url)
    passed_by = proxy_bypass(parts.netloc)
    return _pool_of(None if passed_by else getproxies().get(parts.scheme))


def _token() -> str:
    """An access token, found as terraform-provider-google and gcloud's libraries find one."""
    if given := os.environ.get("GOOGLE_OAUTH_ACCESS_TOKEN"):
        return given
    try:
        import google.auth
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.urllib3 import Request
    except ImportError:
        raise CannotAsk(
            "questions to Google need google-auth; install it beside slicewright: pip install "
            "google-auth, or set GOOGLE_OAUTH_ACCESS_TOKEN=$(gcloud auth print-access-token)"
        ) from None
    try:
        credentials: Any = google.auth.default(scopes=[_SCOPE])[0]
        # google-auth leaves its transports without types.
        http = Request(_pool(_TOKENS))  # type: ignore[no-untyped-call]
        credentials.refresh(http)
    except GoogleAuthError as e:
        raise CannotAsk(f"no Google credentials can be used: {e}; {_LOGIN}") from None
    return str(credentials.token)


def _said(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
