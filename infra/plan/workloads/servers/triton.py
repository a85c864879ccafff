"""Checks the arguments of a Triton workload."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.workloads.servers import triton_flags
from slicewright.infra.plan.workloads.servers.server_flags import (
    Argument,
    check_form,
    flags_of,
    meant,
)

_DOCS = "triton-inference-server/server, docs/user_guide/model_management.md"


@rule("triton")
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
    if "*" in workload.load_models and len(workload.load_models) > 1:
        yield refuse(
            (*path, "load_models"),
            "* stands for all models, and Triton refuses it beside others",
            "write ['*'] alone, or the names without it",
            _DOCS,
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
    yield from _check_arguments(workload.extra_args, (*path, "extra_args"))


def _check_arguments(arguments: Sequence[str], path: stack_file.Path) -> Checked[None]:
    yield from check_form(arguments, path, server="tritonserver")
    for flag in flags_of(arguments):
        yield from _check_flag(flag, (*path, flag.index))


@rule("triton-flag")
def _check_flag(argument: Argument, at: stack_file.Path) -> Checked[None]:
    restricting = meant(argument.flag, triton_flags.RESTRICTED_APIS)
    apis = {api.strip() for api in argument.value.partition(":")[0].split(",")}
    if restricting is not None and triton_flags.PROBED_API in apis:
        yield refuse(
            at,
            f"{restricting}: the probes ask for health, and send no such header",
            "restrict other APIs only",
            "triton-inference-server/server, docs/customization_guide/inference_protocols.md",
        )
    is_allowed = argument.flag in triton_flags.CATALOG - set(triton_flags.REFUSED)
    flag = None if is_allowed else meant(argument.flag, triton_flags.REFUSED)
    if flag is None:
        return
    if flag in triton_flags.OWN_KEYS:
        key = triton_flags.OWN_KEYS[flag]
        yield refuse(at, f"{flag} has a key of its own", f"use {key}")
    elif flag in triton_flags.PORTS:
        yield refuse(
            at,
            f"{flag}: the Service and the probes expect ports 8000, 8001 and 8002 on every address",
            "leave it out",
        )
    else:
        yield refuse(at, f"{flag}: {triton_flags.SERVERS[flag]}", "leave it out")
