"""Triton's container: arguments, ports and probes.

Source: triton-inference-server/server, docs/user_guide and docs/customization_guide.
"""

from __future__ import annotations

from slicewright.infra.manifests.workloads.server import Server
from slicewright.infra.manifests.workloads.volumes import MODELS, models
from slicewright.infra.plan import DeploymentPlan
from slicewright.infra.stack_file import TritonWorkload


def triton_server(plan: DeploymentPlan, workload: TritonWorkload) -> Server:
    return Server(
        command=("/opt/tritonserver/bin/tritonserver",),
        args=triton_args(plan, workload),
        ports={"http": 8000, "grpc": 8001, "metrics": 8002},
        ready={"httpGet": {"path": "/v2/health/ready", "port": "http"}},
        alive={"httpGet": {"path": "/v2/health/live", "port": "http"}},
        volumes=(models(plan, workload.model_repository),),
    )


def triton_args(plan: DeploymentPlan, workload: TritonWorkload) -> tuple[str, ...]:
    return (
        f"--model-repository={MODELS}",
        f"--model-control-mode={workload.model_control}",
        *(f"--load-model={name}" for name in workload.load_models),
        # The time it may take to finish requests, before the kubelet ends it.
        f"--exit-timeout-secs={max(workload.grace_seconds - 5, 1)}",
        # DCGM gives a container no metrics of partitions, and Triton complains at each interval.
        *(("--allow-gpu-metrics=false",) if plan.profiles else ()),
        *workload.extra_args,
    )
