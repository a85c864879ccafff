"""Firewall rules of the simulated Compute Engine that somebody makes. They are read and deleted as
those that a cluster has left (`cluster_resources`); no traffic is simulated.

Source: Compute Engine REST reference, firewalls.
"""

from __future__ import annotations

import ipaddress

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.gcp.compute_answers import API, common, done, referenced_network
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.state import FIREWALLS


class Firewalls:
    def __init__(self, context: Context) -> None:
        self._store = context.store

    def methods(self) -> Methods:
        return {"firewalls.insert": self._insert, "firewalls.patch": self._patch}

    def _insert(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, name = params["project"], str(body.get("name", ""))
        key, path = f"{project}/{name}", f"projects/{project}/global/firewalls/{name}"
        with self._store.lock:
            network = referenced_network(self._store, project, body)
            if self._store.get(FIREWALLS, key):
                raise google_error(409, f"The resource '{path}' already exists")
            rule = {
                "direction": "INGRESS",
                "priority": 1000,
                "disabled": False,
                "logConfig": {"enable": False},
                **body,
                **common(f"{API}/{path}", "compute#firewall"),
                "network": network["selfLink"],
            }
            _check(rule)
            self._store.put(FIREWALLS, key, rule)
        return done(project, "global", f"{API}/{path}", "insert")

    def _patch(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = f"{params['project']}/{params['firewall']}"
        with self._store.lock:
            firewall = self._store.get(FIREWALLS, key)
            if firewall is None:
                path = f"projects/{params['project']}/global/firewalls/{params['firewall']}"
                raise google_error(404, f"The resource '{path}' was not found")
            rule = {**firewall, **body, "network": firewall["network"]}
            _check(rule)
            self._store.put(FIREWALLS, key, rule)
        return done(params["project"], "global", rule["selfLink"], "patch")


def _check(rule: JsonObject) -> None:
    if bool(rule.get("allowed")) == bool(rule.get("denied")):
        raise google_error(
            400, "Exactly one of allowed and denied must be specified in a firewall rule."
        )
    for block in rule.get("sourceRanges") or ():
        try:
            ipaddress.ip_network(str(block))
        except ValueError as e:
            raise google_error(
                400, f"Invalid value for field 'resource.sourceRanges': '{block}'. {e}."
            ) from None
