"""The simulated Service Usage: which APIs are on in a project. Calls of the others are refused.

In a new project of a real account most APIs are off. In a rehearsal all are on, unless
E/cloud/enabled_apis.json, a JSON list such as `["serviceusage.googleapis.com"]`, names those with
which projects begin.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.projects import project_number, project_of
from slicewright.rehearsal.clouds.gcp.state import SERVICE_OPERATIONS, SERVICES

log = logging.getLogger(__name__)
INITIAL = "enabled_apis.json"
"""File beside the stored state: the names of the APIs with which projects begin."""

TITLES: Mapping[str, str] = {
    "artifactregistry.googleapis.com": "Artifact Registry API",
    "cloudkms.googleapis.com": "Cloud Key Management Service (KMS) API",
    "cloudquotas.googleapis.com": "Cloud Quotas API",
    "cloudresourcemanager.googleapis.com": "Cloud Resource Manager API",
    "compute.googleapis.com": "Compute Engine API",
    "container.googleapis.com": "Kubernetes Engine API",
    "iam.googleapis.com": "Identity and Access Management (IAM) API",
    "iamcredentials.googleapis.com": "IAM Service Account Credentials API",
    "logging.googleapis.com": "Cloud Logging API",
    "monitoring.googleapis.com": "Cloud Monitoring API",
    "orgpolicy.googleapis.com": "Organization Policy API",
    "serviceusage.googleapis.com": "Service Usage API",
    "storage.googleapis.com": "Cloud Storage API",
}
_TYPES = "type.googleapis.com/google.api.serviceusage.v1"
_MOST_AT_ONCE = 20


class ServiceUsage:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._initial = context.store.root / INITIAL

    def methods(self) -> Methods:
        return {
            "services.list": self._list,
            "services.get": lambda params, _: self._describe(*_parts(params["name"])),
            "services.batchGet": lambda params, _: {
                "services": [self._describe(*_parts(name)) for name in params.get("names", [])]
            },
            "services.enable": self._enable,
            "services.batchEnable": self._batch_enable,
            "services.disable": self._disable,
            "operations.get": self._operation,
        }

    def inventory(self) -> list[JsonObject]:
        """An API that is on costs nothing and stays on when a stack is destroyed."""
        return []

    def require(self, service: str, params: JsonObject) -> None:
        """Raises CloudError 403 unless the API is on in the project that the request names.

        service: container, compute and so on.
        """
        project, name = project_of(params), f"{service}.googleapis.com"
        if project is None or name in self._enabled(project):
            return
        number, title = project_number(project), TITLES[name]
        page = f"https://console.developers.google.com/apis/api/{name}/overview?project={number}"
        message = (
            f"{title} has not been used in project {number} before or it is disabled. Enable it by "
            f"visiting {page} then retry. If you enabled this API recently, wait a few minutes for "
            "the action to propagate to our systems and retry."
        )
        raise google_error(403, message, details=_disabled_details(name, title, number, page))

    def _enabled(self, project: str) -> frozenset[str]:
        stored = self._store.get(SERVICES, project)
        return frozenset(stored["enabled"]) if stored else _initial(self._initial)

    def _set(self, project: str, enabled: frozenset[str]) -> None:
        self._store.put(SERVICES, project, {"enabled": sorted(enabled)})

    def _describe(self, project: str, service: str) -> JsonObject:
        _check_known([service])
        number = project_number(project)
        state = "ENABLED" if service in self._enabled(project) else "DISABLED"
        return {
            "name": f"projects/{number}/services/{service}",
            "parent": f"projects/{number}",
            "state": state,
            "config": {"name": service, "title": TITLES[service]},
        }

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project = params["parent"].removeprefix("projects/")
        condition = str(params.get("filter", ""))
        if condition not in ("", "state:ENABLED", "state:DISABLED"):
            raise google_error(
                400, f"Invalid filter: {condition}; state:ENABLED or state:DISABLED."
            )
        services = [self._describe(project, service) for service in sorted(TITLES)]
        selected = [s for s in services if condition in ("", f"state:{s['state']}")]
        first, size = _page(params)
        answer: JsonObject = {"services": selected[first : first + size]}
        if first + size < len(selected):
            answer["nextPageToken"] = str(first + size)
        return answer

    def _enable(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, service = _parts(params["name"])
        self._turn_on(project, [service])
        return self._done(
            "EnableServiceResponse", {"service": self._describe(project, service)}, [service]
        )

    def _batch_enable(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project = params["parent"].removeprefix("projects/")
        names = [str(name) for name in body.get("serviceIds") or []]
        if not 1 <= len(names) <= _MOST_AT_ONCE:
            raise google_error(
                400, f"service_ids: {len(names)} services; 1 to {_MOST_AT_ONCE} can be enabled."
            )
        self._turn_on(project, names)
        services = [self._describe(project, name) for name in names]
        return self._done("BatchEnableServicesResponse", {"services": services}, names)

    def _turn_on(self, project: str, names: Sequence[str]) -> None:
        _check_known(names)
        with self._store.lock:
            self._set(project, self._enabled(project) | frozenset(names))

    def _disable(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, service = _parts(params["name"])
        _check_known([service])
        with self._store.lock:
            enabled = self._enabled(project)
            if service not in enabled:
                raise google_error(
                    400,
                    f"[{service}] is not enabled in project {project}.",
                    status="FAILED_PRECONDITION",
                )
            self._set(project, enabled - {service})
        return self._done(
            "DisableServiceResponse", {"service": self._describe(project, service)}, [service]
        )

    def _done(self, kind: str, response: JsonObject, services: Sequence[str]) -> JsonObject:
        """An operation that is already done: switching an API takes no time worth simulating."""
        name = f"operations/acat.p2-{secrets.token_hex(12)}"
        operation: JsonObject = {
            "name": name,
            "done": True,
            "metadata": {"@type": f"{_TYPES}.OperationMetadata", "resourceNames": list(services)},
            "response": {"@type": f"{_TYPES}.{kind}", **response},
        }
        return self._store.put(SERVICE_OPERATIONS, name, operation)

    def _operation(self, params: JsonObject, body: JsonObject) -> JsonObject:
        operation = self._store.get(SERVICE_OPERATIONS, params["name"])
        if operation is None:
            raise google_error(404, f"Operation {params['name']} was not found.")
        return operation


def _initial(path: Path) -> frozenset[str]:
    """All, without the file or with one that cannot be read."""
    try:
        listed = json.loads(path.read_text())
    except FileNotFoundError:
        return frozenset(TITLES)
    except ValueError as e:
        log.warning("%s is not JSON (%s); all APIs are on", path, e)
        return frozenset(TITLES)
    if not isinstance(listed, list) or not set(listed) <= set(TITLES):
        log.warning("%s is not a list of %s; all APIs are on", path, ", ".join(sorted(TITLES)))
        return frozenset(TITLES)
    return frozenset(listed)


def _parts(name: str) -> tuple[str, str]:
    """Project and API of projects/PROJECT/services/API."""
    _, project, _, service = name.split("/")
    return project, service


def _page(params: JsonObject) -> tuple[int, int]:
    """Index of the first item, and how many. Raises CloudError 400 for a token not of ours."""
    token, size = str(params.get("pageToken") or "0"), int(params.get("pageSize") or 50)
    if not token.isdecimal() or not 0 < size <= 200:
        raise google_error(400, "Invalid page token, or a page size that is not 1 to 200.")
    return int(token), size


def _check_known(names: Sequence[str]) -> None:
    """Raises CloudError 403, as for an API that does not exist or is not the caller's to see."""
    unknown = [name for name in names if name not in TITLES]
    if unknown:
        listed = ", ".join(unknown)
        raise _unknown_services(listed)


def _unknown_services(listed: str) -> CloudError:
    return google_error(
        403,
        f"Not found or permission denied for service(s): {listed}.",
        details=[
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED",
                "domain": "serviceusage.googleapis.com",
                "metadata": {"services": listed},
            }
        ],
    )


def _disabled_details(name: str, title: str, number: str, page: str) -> list[JsonObject]:
    """Source: cloud.google.com/apis/docs, "Troubleshooting: SERVICE_DISABLED" (google.rpc)."""
    return [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "SERVICE_DISABLED",
            "domain": "googleapis.com",
            "metadata": {
                "service": name,
                "serviceTitle": title,
                "consumer": f"projects/{number}",
                "containerInfo": number,
                "activationUrl": page,
            },
        },
        {
            "@type": "type.googleapis.com/google.rpc.Help",
            "links": [{"description": "Google developers console API activation", "url": page}],
        },
    ]
