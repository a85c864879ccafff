"""The command line of the stand-in for vLLM is vLLM's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.infra import plan
from slicewright.infra.manifests.workloads.vllm import vllm_args
from slicewright.infra.stack_file import VllmWorkload
from slicewright.rehearsal.cluster.model_server.flags import WrongFlags, option_strings, parse
from tests.infra.plan import test_workloads


def test_flags_of_the_product_are_all_known() -> None:
    """Both of the golden file's workloads, in a release whose flags are known."""
    golden = Path(test_workloads.__file__).parents[1] / "golden" / "vllm.yaml"
    fleet = plan.read_file(golden)
    seen = {}
    for one in fleet.deployments:
        assert isinstance(one.workload, VllmWorkload)
        seen[one.name] = parse(vllm_args(one.workload), release="0.6.2")
    llm, large = seen["llm-deployment"], seen["large"]
    assert (llm.host, llm.port, llm.dtype) == ("0.0.0.0", 8000, "bfloat16")
    assert llm.names == ("mistralai/Mistral-Nemo-Instruct-2407",)
    assert (llm.max_model_len, llm.max_num_seqs, llm.devices) == (8192, 256, 1)
    assert (large.names, large.devices) == (("mixtral",), 2)
    assert (large.gpu_memory_utilization, large.model) == (0.85, "/cache/mixtral/v1")


@pytest.mark.parametrize("release", ["0.6.2", "0.7.3"])
def test_the_flags_of_a_release_are_those_of_its_wheel(release: str) -> None:
    """As `ast` reads them from add_argument in its two files of arguments; `--config` is read
    before them, and a BooleanOptionalAction has `--no-` as well.
    """
    recorded = json.loads((Path(__file__).parent / "vllm_flags.json").read_text())[release]
    beside = {"--config", "--no-enable-prefix-caching"}
    assert option_strings(release) - beside == set(recorded)
    assert ("--no-enable-prefix-caching" in option_strings(release)) is (release == "0.7.3")


def test_a_flag_of_a_later_release_ends_an_earlier_one() -> None:
    with pytest.raises(WrongFlags, match="unrecognized arguments: --task=generate"):
        parse(["--task=generate"], release="0.6.2")
    assert parse(["--task=generate"], release="0.7.3").unknown == ()


def test_an_unknown_flag_ends_a_release_whose_flags_are_known() -> None:
    with pytest.raises(WrongFlags, match="error: unrecognized arguments: --max-modle-len=1"):
        parse(["--max-modle-len=1"], release="0.6.2")


def test_unknown_flag_is_only_reported_for_another_release() -> None:
    assert parse(["--new-flag=1"], release="0.30.0").unknown == ("--new-flag=1",)
    assert parse(["--new-flag=1"], release="").unknown == ("--new-flag=1",)


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("--dtype=bf16", "invalid choice: 'bf16'"),
        ("--max-model-len=8k", "invalid int value: '8k'"),
        ("--gpu-memory-utilization=1.5", "GPU memory utilization must be less than 1.0. Got 1.5"),
        ("--tensor-parallel-size", "expected one argument"),
    ],
)
def test_a_wrong_value_is_refused_in_vllms_words(argument: str, why: str) -> None:
    with pytest.raises(WrongFlags, match=why):
        parse([argument], release="0.6.2")


@given(st.integers(1, 10**6))
def test_underscores_are_dashes_but_not_in_values(length: int) -> None:
    found = parse([f"--max_model_len={length}", "--model=a_b/c_d"], release="0.6.2")
    assert (found.max_model_len, found.model) == (length, "a_b/c_d")
