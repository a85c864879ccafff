"""Model servers that would not fit: by other forms of a checked argument, on shared devices, and on
the disk of their node.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slicewright.infra import plan, stack_file
from tests.infra.plan.test_workloads import (
    CONTAINER,
    TRITON,
    noted,
    planned,
    refusal,
    shared,
    stack,
    written,
)

SCALED = {"max": 8, "metric": "queue-time", "target": "50ms"}
MONITORED = {"prometheus": "existing", "url": "http://prometheus.monitoring.svc:9090"}


def refused(raw: dict[str, Any]) -> str:
    with pytest.raises(stack_file.SpecError) as found:
        planned(raw)
    return str(found.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-tp", "2"], "-tp has a key of its own, which is checked; use tensor_parallel"),
        (["-tp=2"], "use tensor_parallel"),
        (["-t", "2"], "use tensor_parallel"),
        (["--tensor-parallel", "2"], "--tensor-parallel-size has a key of its own"),
        (["--tensor_par=2"], "--tensor-parallel-size has a key of its own"),
        (["--gpu-memory=0.99"], "use gpu_memory_percent"),
        (["--pipeline-parallel-size=2"], "a pod has the GPUs of tensor_parallel, and no others"),
        (["-pp", "2"], "-pp: a pod has the GPUs of tensor_parallel"),
        (["-dp", "2"], "-dp: a pod has the GPUs of tensor_parallel"),
        (["--api=secret"], "--api-key would show a secret"),
    ],
)
def test_every_form_of_an_argument_of_vllm_that_has_a_key_is_refused(
    arguments: list[str], said: str
) -> None:
    assert said in refusal(("extra_args", arguments))


def test_arguments_that_only_look_like_those_with_a_key_are_left_alone() -> None:
    others = ["--swap-space=16", "--model-impl", "auto", "-q", "fp8", "--max-num-seqs-of", "-1"]
    assert planned(written(("extra_args", others))).deployments


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--allow-http=false", "--allow-http: the probes and clients ask its HTTP server"),
        ("--allow-metrics=false", "--allow-metrics: Prometheus, and with it autoscaling, reads"),
        ("--allow-m=0", "--allow-metrics: Prometheus"),
        ("--http-address=127.0.0.1", "expect ports 8000, 8001 and 8002 on every address"),
        ("--grpc-address=127.0.0.1", "expect ports 8000, 8001 and 8002 on every address"),
        ("--model-repo=/x", "--model-repository has a key of its own; use model_repository"),
    ],
)
def test_arguments_of_triton_that_cut_off_its_probes_or_metrics_are_refused(
    argument: str, said: str
) -> None:
    assert said in refusal(("extra_args", [argument]), stack=TRITON)


def test_gpus_metrics_of_triton_may_be_off() -> None:
    others = ["--allow-gpu-metrics=false", "--http-thread-count=4"]
    assert planned(written(("extra_args", others), stack=TRITON)).deployments


def test_replicas_that_an_autoscaler_may_bring_share_a_partition_too() -> None:
    raw = written(
        ("replicas", None), ("autoscaling", SCALED), ("gpu_memory", "1216Mi"), stack=TRITON
    )
    raw["monitoring"] = MONITORED
    assert planned(raw).deployments[0].most == 8
    raw["workloads"][0]["gpu_memory"] = "2Gi"
    said = refused(raw)
    assert "workloads[0].gpu_memory: 4 replicas may share one nvidia.com/mig-1g.5gb" in said
    assert "8192 MiB of 4864; write 1216Mi or less" in said
    raw["workloads"][0]["autoscaling"] = SCALED | {"max": 2}
    assert planned(raw).deployments


def test_vllm_that_an_autoscaler_multiplies_takes_its_part_of_a_partition_each_time() -> None:
    raw = shared(1, 90)
    del raw["workloads"][0]["replicas"]
    raw["workloads"][0]["autoscaling"] = {"max": 4, "metric": "requests-waiting", "target": 2}
    raw["monitoring"] = MONITORED
    said = refused(raw)
    assert "4 replicas may share one nvidia.com/mig-3g.20gb.shared, and 90 % each is 360 %" in said


def two_on_one_partition(first: str, second: str) -> dict[str, Any]:
    """Two Tritons of one replica each, on 1g.5gb that four pods share."""
    raw = written(("replicas", 1), ("gpu_memory", first), stack=TRITON)
    raw["workloads"].append(raw["workloads"][0] | {"name": "second", "gpu_memory": second})
    return raw


def test_workloads_that_may_share_a_partition_are_added_up() -> None:
    assert len(planned(two_on_one_partition("2Gi", "2816Mi")).deployments) == 2
    said = refused(two_on_one_partition("2Gi", "2817Mi"))
    assert "workloads[1].gpu_memory: 2 pods may share one nvidia.com/mig-1g.5gb" in said
    assert "1 of second, 1 of tritonserver, and together they take" in said
    assert "4865 MiB of 4864" in said
    assert said.count("may share one") == 1


def test_shared_memory_counts_the_largest_replicas_that_fit_on_a_device() -> None:
    raw = two_on_one_partition("1216Mi", "1216Mi")
    raw["workloads"][0]["replicas"] = raw["workloads"][1]["replicas"] = 4
    assert len(planned(raw).deployments) == 2
    raw["workloads"][1] |= {"gpu_memory": "1217Mi", "replicas": 1}
    assert "1 of second, 3 of tritonserver" in refused(raw)


def test_a_workload_that_is_refused_alone_is_not_refused_again_with_others() -> None:
    raw = two_on_one_partition("2Gi", "2Gi")
    raw["workloads"][0]["replicas"] = 4
    said = refused(raw)
    assert said.count("may share one") == 1
    assert "workloads[0].gpu_memory" in said


def test_on_different_resources_and_whole_devices_nothing_is_added_up() -> None:
    raw = two_on_one_partition("4Gi", "4Gi")
    raw["workloads"][1]["resource"] = "mig-2g.10gb"
    assert len(planned(raw).deployments) == 2
    assert len(planned(copy.deepcopy(stack("container"))).deployments) == len(
        CONTAINER["workloads"]
    )


def test_models_that_fill_the_disk_of_a_node_are_noted() -> None:
    raw = written(("cache", None))
    pool = raw["node_pools"][0]

    def filling() -> list[str]:
        return [note for note in plan.notes(planned(raw)) if "evicts pods" in note]

    pool |= {"disk": {"size_gb": 100}}
    pool["local_ssd"] = {"ephemeral": 0, "raw": 16}
    (note,) = filling()
    assert "16 replicas on one node keep 392 GB of models on its disk of 100 GB" in note
    assert "write cache" in note
    pool["disk"]["size_gb"] = 2000
    assert not filling()
    pool |= {"disk": {"size_gb": 100}, "local_ssd": {"ephemeral": 16}}
    assert not filling()
    assert not any("evicts pods" in note for note in noted())
