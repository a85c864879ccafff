"""Images, quantities and names are accepted in the forms of Kubernetes and of the clouds."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from slicewright.infra.stack_file import mebibytes, millicpus
from slicewright.infra.stack_file.schema.field_types import Image, Memory
from slicewright.infra.stack_file.schema.gpu_operator import GpuOperator
from slicewright.infra.stack_file.schema.quantities import Cpu
from tests.properties import examples


def accepts(annotation: Any, value: Any) -> bool:
    try:
        TypeAdapter(annotation).validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    "image",
    [
        "192.168.1.10:5000/python:3.13",
        "192.168.1.10/python",
        "10.0.0.1:5000/3",
        "[2001:db8::1]:5000/python:3.13",
        "localhost:5000/a",
        "localhost/a",
        "Registry/a:b",
        "registry.example.com/a/b@sha512:" + "0" * 128,
        "python:3.13",
        "a/b:c",
        "1.dkr.ecr.eu-west-1.amazonaws.com/a__b/c--d:1_2",
    ],
)
def test_an_image_of_any_registry_is_accepted(image: str) -> None:
    assert accepts(Image, image)


@pytest.mark.parametrize(
    "image",
    ["3.13", "3.13:1", "a:", "a//b", "A", "a:b:c", "a@sha256:0", "192.168.1.10:5000/", "/a"],
)
def test_text_that_is_no_image_is_refused(image: str) -> None:
    assert not accepts(Image, image)


@pytest.mark.parametrize(
    ("cpu", "thousandths"),
    [
        (1, 1000),
        (1024, 1_024_000),
        (0.5, 500),
        (1.25, 1250),
        ("500m", 500),
        ("1", 1000),
        ("1.5", 1500),
    ],
)
def test_a_number_of_cpus_is_accepted_as_kubernetes_does(
    cpu: float | str, thousandths: int
) -> None:
    assert accepts(Cpu, cpu)
    assert millicpus(cpu) == thousandths


@pytest.mark.parametrize(
    "cpu", [0, -1, 1025, 0.0001, 2000.5, "0m", "9999999m", "1Gi", "", True, None]
)
def test_text_that_is_no_number_of_cpus_is_refused(cpu: Any) -> None:
    assert not accepts(Cpu, cpu)


@pytest.mark.parametrize(
    ("memory", "mib"),
    [
        ("18Gi", 18432),
        ("1.5Gi", 1536),
        ("1536Mi", 1536),
        ("1Ti", 1024**2),
        ("2097152Ki", 2048),
        ("16G", 15259),
        ("500M", 477),
        ("1073741824", 1024),
        ("1e9", 954),
        ("1E9", 954),
    ],
)
def test_an_amount_of_memory_is_accepted_as_kubernetes_does(memory: str, mib: int) -> None:
    assert accepts(Memory, memory)
    assert mebibytes(memory) == mib


@pytest.mark.parametrize(
    "memory",
    ["18GB", "18", "18gi", "1 Gi", "-1Gi", "1500m", "0Gi", "1Ei", "1e99", "Gi", "1.Gi", ""],
)
def test_text_that_is_no_amount_of_memory_is_refused(memory: str) -> None:
    assert not accepts(Memory, memory)


_FACTORS = {
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", 1)},
    **{letter: 1000**power for power, letter in enumerate("kMGTP", 1)},
}


@given(st.integers(1, 10**6), st.integers(0, 999), st.sampled_from(sorted(_FACTORS)))
@settings(max_examples=examples(500))
def test_memory_is_rounded_up_to_mebibytes(whole: int, thousandths: int, suffix: str) -> None:
    text = f"{whole}.{thousandths:03}{suffix}"
    size = Fraction(whole * 1000 + thousandths, 1000) * _FACTORS[suffix]
    if accepts(Memory, text):
        assert 0 <= mebibytes(text) - size / 2**20 < 1


@pytest.mark.parametrize(
    "version",
    ["latest", "stable", "main", ">=580", "580.x", "v580.95.05", "58", "sha256:12", "580.95.05 "],
)
def test_a_driver_version_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(ValidationError):
        GpuOperator.model_validate({"driver": {"enabled": True, "version": version}})


@pytest.mark.parametrize(
    "version", ["580", "580.95.05", "580.95.05-ubuntu22.04", "sha256:" + "a" * 64]
)
def test_a_driver_version_is_accepted(version: str) -> None:
    GpuOperator.model_validate({"driver": {"enabled": True, "version": version}})


@pytest.mark.parametrize(
    "component", ["toolkit", "device_plugin", "gfd", "dcgm_exporter", "validator", "mig_manager"]
)
def test_a_version_that_moves_is_refused(component: str) -> None:
    for version in ("latest", "main", "v0.x", "~0.20", "0.20 "):
        with pytest.raises(ValidationError):
            GpuOperator.model_validate({component: {"version": version}})
    GpuOperator.model_validate({component: {"version": "v0.20.0"}})


@pytest.mark.parametrize("key", ["cluster_policy", "namespace"])
def test_a_name_of_an_existing_operator_may_start_with_a_digit(key: str) -> None:
    GpuOperator.model_validate({key: "1-gpu"})


def test_patterns_are_quick_on_long_text() -> None:
    for annotation in (Image, Memory):
        for text in ("a" * 5000 + "!", "a-" * 2500 + "!", "1" * 5000, "a/" * 2500 + "!"):
            assert not accepts(annotation, text)
