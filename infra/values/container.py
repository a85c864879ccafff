"""A container as the stack file states it."""

from __future__ import annotations

from infra.plan import DeploymentPlan
from infra.spec import ContainerWorkload
from infra.values.server import Server
from infra.values.text import JsonObject
from infra.values.workload_volumes import cache


def container_server(plan: DeploymentPlan, asked: ContainerWorkload) -> Server:
    health = asked.health

    def probe(path: str, port: str) -> JsonObject:
        return {"httpGet": {"path": path, "port": port}}

    return Server(
        command=asked.command,
        args=asked.args,
        ports=asked.ports,
        ready=probe(health.path, health.port) if health else None,
        alive=probe(health.alive_path or health.path, health.port) if health else None,
        volumes=(cache(plan, asked.cache),) if asked.cache is not None else (),
    )
