"""Checks the arguments of a Triton workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, refuse
from slicewright.infra.plan.workloads.server_flags import meant

_TYPED: Final[Mapping[str, str]] = {
    "--model-repository": "model_repository",
    "--model-store": "model_repository",
    "--model-control-mode": "model_control",
    "--load-model": "load_models",
    "--exit-timeout-secs": "grace_seconds",
}
"""Arguments of tritonserver -> the keys that state them."""
_PORTS: Final = (
    *("--http-port", "--grpc-port", "--metrics-port"),
    *("--http-address", "--grpc-address", "--metrics-address"),
)
_SERVERS: Final[Mapping[str, str]] = {
    "--allow-http": "the probes and clients ask its HTTP server",
    "--allow-metrics": "Prometheus, and with it autoscaling, reads its metrics",
}
_CHECKED: Final = (*_TYPED, *_PORTS, *_SERVERS)
_DOCS = "triton-inference-server/server, docs/user_guide/model_management.md"


def check_triton(
    workload: stack_file.TritonWorkload, path: stack_file.Path, stated: Stated
) -> Checked[None]:
    control = (*path, "model_control")
    if workload.load_models and workload.model_control != "explicit" and stated.has(control):
        yield refuse(
            (*path, "load_models"),
            f"with model_control: {workload.model_control} all models of the directory are loaded",
            "leave it out, or write model_control: explicit",
            _DOCS,
            in_key=True,
        )
    for i, name in enumerate(workload.load_models):
        if "/" in name or name in (".", ".."):
            yield refuse(
                (*path, "load_models", i),
                f"{name} names no model: a model is a directory of the repository, by its own name",
                "write that name alone, for example densenet_onnx",
                _DOCS,
            )
    share = workload.model_repository
    if isinstance(share, stack_file.ModelShare) and ".." in share.path.split("/"):
        yield refuse(
            (*path, "model_repository", "path"),
            "has '..', and servers export directories by their own paths",
            "write the path without it",
            "Kubernetes docs, volumes: nfs",
        )
    for i, argument in enumerate(workload.extra_args):
        flag = meant(argument, _CHECKED)
        if flag is None:
            continue
        if flag in _TYPED:
            yield refuse(
                (*path, "extra_args", i),
                f"{flag} has a key of its own",
                f"use {_TYPED[flag]}",
            )
        elif flag in _PORTS:
            yield refuse(
                (*path, "extra_args", i),
                f"{flag}: the Service and the probes expect ports 8000, 8001 and 8002 on every "
                "address",
                "leave it out",
            )
        elif flag in _SERVERS:
            yield refuse((*path, "extra_args", i), f"{flag}: {_SERVERS[flag]}", "leave it out")
