"""The fake still answers as the real GPUs did that `make gpu-check` has read (docs/gpu-check)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.gpu_check.__main__ import compared

_RECORDED = sorted((Path(__file__).parents[4] / "docs" / "gpu-check").glob("*.json"))


def _reading(path: Path) -> dict[str, Any]:
    reading: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return reading


def test_real_gpus_are_recorded() -> None:
    readings = [_reading(path) for path in _RECORDED]
    assert {gpu["model"] for reading in readings for gpu in reading["gpus"]} == {
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H200",
    }
    assert not any(reading["simulated"] for reading in readings)


_ABSENT = "(absent)"
_ASKED_SINCE = {
    "constants, compute mode",
    "constants, fabric state",
    "constants, fabric health",
    *(f"answers, nvmlDeviceGetGpuFabricInfo(version {version})" for version in (1, 2, 3)),
}
"""Questions that are newer than the records; the next record answers them."""


@pytest.mark.parametrize("path", _RECORDED, ids=lambda path: path.stem)
def test_the_fake_answers_as_the_recorded_gpu(path: Path) -> None:
    reading = _reading(path)
    gpu = reading["gpus"][reading["compared"]]
    different = compared(gpu, reading["driver"], len(reading["gpus"]))
    assert {d.what for d in different or () if d.real == _ABSENT} == _ASKED_SINCE
    assert [d for d in different or () if d.real != _ABSENT] == []
