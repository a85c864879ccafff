"""A container that the stack file describes in full."""

from __future__ import annotations

from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.manifests.workloads.server import Server
from slicewright.infra.manifests.workloads.volumes import cache
from slicewright.infra.plan import DeploymentPlan
from slicewright.infra.stack_file import ContainerWorkload


def container_server(plan: DeploymentPlan, workload: ContainerWorkload) -> Server:
    health = workload.health

    def probe(path: str, port: str) -> JsonObject:
        return {"httpGet": {"path": path, "port": port}}

    return Server(
        command=workload.command,
        args=workload.args,
        ports=workload.ports,
        ready=probe(health.path, health.port) if health else None,
        alive=probe(health.alive_path or health.path, health.port) if health else None,
        volumes=(cache(plan, workload.cache),) if workload.cache is not None else (),
    )
