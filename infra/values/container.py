"""A container that the stack file describes in full."""

from __future__ import annotations

from infra.plan import DeploymentPlan
from infra.spec import ContainerWorkload
from infra.values.server import Server
from infra.values.text import JsonObject
from infra.values.workload_volumes import cache


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
