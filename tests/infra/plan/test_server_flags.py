"""Flags of vLLM and Triton: what each does to address, readiness, model, memory and GPUs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.infra.plan.notes import notes as notes_of
from slicewright.infra.plan.workloads.servers import triton_flags, vllm_flags
from slicewright.infra.plan.workloads.servers.server_flags import flags_of, unknown_flags
from tests.repository_stacks import DIRECTORY

VLLM: dict[str, Any] = {
    "kind": "vllm",
    "name": "llm",
    "image": "vllm/vllm-openai:v0.17.0",
    "model": {"name": "a/b", "parameters": "100M"},
}
TRITON: dict[str, Any] = {
    "kind": "triton",
    "name": "llm",
    "image": "nvcr.io/nvidia/tritonserver:25.03-py3",
    "model_repository": {"claim": "models"},
}


def fleet_with(workload: dict[str, Any], **pool: Any) -> plan.FleetPlan:
    text = (DIRECTORY / "Pulumi.eks-a100.yaml").read_text()
    raw = yaml.safe_load(text)["config"]["slicewright:fleet"]
    raw["node_pools"] = [
        {
            "name": "p",
            "machine_type": "p4d.24xlarge",
            "nodes": {"count": 1},
            **pool,
        }
    ]
    raw["workloads"] = [{**workload, "pool": "p"}]
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def refusal(workload: dict[str, Any], **pool: Any) -> str:
    with pytest.raises(stack_file.SpecError) as refused:
        fleet_with(workload, **pool)
    return str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--uds=/tmp/s"], "listen on a file"),
        (["--uds", "/tmp/s"], "listen on a file"),
        (["--headless"], "no API server"),
        (["--headl"], "no API server"),
        (["--ssl-keyfile=/k"], "TLS"),
        (["--ssl_certfile=/c"], "TLS"),
        (["--config=/cache/all.yaml"], "gets round"),
        (["--kv-cache-memory-bytes=1G"], "takes the place of gpu_memory_percent"),
        (["--num-gpu-blocks-override=9"], "takes the place of gpu_memory_percent"),
        (["--nnodes=2"], "no others"),
        (["-dpl=2"], "no others"),
        (["--hf-overrides.num_hidden_layers=4"], "model.attention"),
        (["--help"], "prints a text and ends"),
        (["mistral"], "is no flag"),
        (["--seed=1", "--"], "-- ends the flags"),
    ],
)
def test_a_flag_of_vllm_that_bypasses_a_check_is_refused(arguments: list[str], why: str) -> None:
    assert why in refusal({**VLLM, "extra_args": arguments})


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--http-restricted-api=health:k=v"], "the probes ask for health"),
        (["--http-restricted-api", "metadata,health:k=v"], "the probes ask for health"),
        (["--http-restricted-p=health:k=v"], "the probes ask for health"),
        (["--strict-readiness=false"], "when their models are loaded"),
        (["--allow-vertex-ai=true"], "Vertex AI's server"),
        (["--version"], "prints a text and ends"),
        (["densenet"], "is no flag"),
    ],
)
def test_a_flag_of_triton_that_bypasses_a_check_is_refused(arguments: list[str], why: str) -> None:
    assert why in refusal({**TRITON, "extra_args": arguments})


@pytest.mark.parametrize(
    ("workload", "arguments"),
    [
        (VLLM, ["--enable-prefix-caching", "--no-enable-log-requests", "-O3", "--seed", "-1"]),
        (VLLM, ["--speculative-config.num_speculative_tokens", "2", "--lora-modules", "a=b"]),
        (TRITON, ["--http-restricted-api=model-repository:k=v", "--log-verbose=1"]),
    ],
)
def test_known_flags_are_accepted_without_a_note(
    workload: dict[str, Any], arguments: list[str]
) -> None:
    fleet = fleet_with({**workload, "extra_args": arguments})
    assert not [note for note in notes_of(fleet) if "no known flag" in note]


@pytest.mark.parametrize("workload", [VLLM, TRITON])
def test_an_unknown_flag_is_accepted_with_a_note(workload: dict[str, Any]) -> None:
    fleet = fleet_with({**workload, "extra_args": ["--brand-new=1"]})
    (note,) = [note for note in notes_of(fleet) if "no known flag" in note]
    assert "--brand-new" in note


@pytest.mark.parametrize("flags", [vllm_flags, triton_flags])
def test_no_flag_is_both_refused_and_allowed(flags: Any) -> None:
    assert len(flags.CATALOG) == len(set(flags.REFUSED)) + len(flags._ALLOWED)


def test_a_value_is_no_flag() -> None:
    flags = [(a.flag, a.value) for a in flags_of(["--seed", "-1", "--x=y=z", "--on", "--n", "v"])]
    assert flags == [("--seed", ""), ("--x", "y=z"), ("--on", ""), ("--n", "v")]
    assert unknown_flags(["--seed", "-1"], {"--seed"}) == []


@pytest.mark.parametrize(
    ("gpus", "heads", "instead"),
    [
        (3, 8, "write 2 or 4"),
        (6, 8, "write 4 or 8"),
        (5, 4, "write 4 or 8"),
        (3, 2, "write 2 or 4"),
    ],
)
def test_gpus_that_cannot_share_the_heads_of_a_model_are_refused(
    gpus: int, heads: int, instead: str
) -> None:
    attention = {"layers": 32, "kv_heads": heads, "head_dim": 128}
    workload = VLLM | {"tensor_parallel": gpus, "model": {**VLLM["model"], "attention": attention}}
    text = refusal(workload)
    assert f"{gpus} GPUs cannot share {heads} key-value heads" in text
    assert instead in text


@pytest.mark.parametrize(("gpus", "heads"), [(1, 8), (2, 8), (8, 8), (8, 4), (8, 1), (4, 12)])
def test_gpus_that_share_the_heads_evenly_are_accepted(gpus: int, heads: int) -> None:
    attention = {"layers": 32, "kv_heads": heads, "head_dim": 128}
    fleet_with(VLLM | {"tensor_parallel": gpus, "model": {**VLLM["model"], "attention": attention}})


def test_a_data_type_that_the_gpu_lacks_is_refused() -> None:
    assert "T4 has no bfloat16" in refusal(VLLM | {"dtype": "bfloat16"}, machine_type="g4dn.xlarge")


@pytest.mark.parametrize("dtype", ["auto", "float16", "float32"])
def test_other_data_types_are_accepted_on_turing(dtype: str) -> None:
    fleet_with(VLLM | {"dtype": dtype}, machine_type="g4dn.xlarge")


def test_all_models_are_loaded_alone() -> None:
    explicit = TRITON | {"model_control": "explicit"}
    assert "Triton refuses it beside others" in refusal(explicit | {"load_models": ["*", "a"]})
    fleet_with(explicit | {"load_models": ["*"]})
