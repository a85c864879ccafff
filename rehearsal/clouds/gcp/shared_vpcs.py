"""Shared VPC of the simulated Compute Engine: host projects, and the projects they share with.

Source: Compute Engine REST reference, projects.enableXpnHost, enableXpnResource, getXpnHost.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.gcp.compute_answers import API, done
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.state import SHARED_VPCS


class SharedVpcs:
    def __init__(self, context: Context) -> None:
        self._store = context.store

    def methods(self) -> Methods:
        return {
            "projects.enableXpnHost": self._enable_host,
            "projects.enableXpnResource": self._attach,
            "projects.getXpnHost": self._host_of,
        }

    def _enable_host(self, params: JsonObject, body: JsonObject) -> JsonObject:
        host = params["project"]
        with self._store.lock:
            if self._host(host):
                raise google_error(400, f"Project {host} is a service project of a Shared VPC.")
            if self._store.get(SHARED_VPCS, host) is None:
                self._store.put(SHARED_VPCS, host, {"projects": []})
        return done(host, "global", f"{API}/projects/{host}", "enableXpnHost")

    def _attach(self, params: JsonObject, body: JsonObject) -> JsonObject:
        host = params["project"]
        project = str((body.get("xpnResource") or {}).get("id", ""))
        with self._store.lock:
            shared = self._store.get(SHARED_VPCS, host)
            if shared is None:
                raise google_error(400, f"Project {host} is not a Shared VPC host project.")
            other = self._host(project)
            if not project or (other and other != host):
                raise google_error(
                    400, f"Project '{project}' cannot be attached to the Shared VPC of {host}."
                )
            self._store.put(SHARED_VPCS, host, {"projects": sorted({*shared["projects"], project})})
        return done(host, "global", f"{API}/projects/{host}", "enableXpnResource")

    def _host_of(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """Nothing for a project that is attached to none."""
        host = self._host(params["project"])
        if host is None:
            return {}
        return {
            "kind": "compute#project",
            "name": host,
            "selfLink": f"{API}/projects/{host}",
            "xpnProjectStatus": "HOST",
        }

    def _host(self, project: str) -> str | None:
        return next(
            (
                host
                for host, shared in self._store.items(SHARED_VPCS)
                if project in shared["projects"]
            ),
            None,
        )
