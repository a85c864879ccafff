"""Machines of the simulated Compute Engine: those of GKE's node pools, and only their deletion.

They are of managed instance groups, which make a deleted one again under its name. Source: Compute
Engine documentation, "About repairing VMs for high availability in MIGs".
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.gcp.compute_answers import API, done
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.state import NODE_POOLS


class Instances:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return {"instances.delete": self._delete}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, zone, name = params["project"], params["zone"], params["instance"]
        path = f"projects/{project}/zones/{zone}/instances/{name}"
        for key, item in self._context.store.items(NODE_POOLS, prefix=f"projects/{project}/"):
            for node in item["nodes"]:
                if (node["name"], node["location"]) == (name, zone):
                    self._context.tasks.begin(
                        "container.nodes.recreate", key=key, node=node["index"]
                    )
                    return done(project, f"zones/{zone}", f"{API}/{path}", "delete")
        raise google_error(404, f"The resource '{path}' was not found")
