"""What `nvidia-smi -L` prints in a container, for every kind of device that it may have."""

from __future__ import annotations

import pytest

from slicewright.node_agent.nvml.observed import (
    Engines,
    Failure,
    MigDevice,
    Observation,
    ObservedGpu,
)
from slicewright.rehearsal.cluster.node import nvidia_smi

GPU = ObservedGpu(index=0, uuid="GPU-1", model="Tesla T4")
DEVICE = MigDevice(
    uuid="MIG-1",
    gpu_instance=7,
    compute_instance=0,
    gpu_slices=1,
    compute_slices=1,
    memory_mib=4864,
    multiprocessors=14,
    engines=Engines(decoders=0, encoders=0, jpeg=0, ofa=0),
    name="NVIDIA A100-SXM4-40GB MIG 1g.5gb",
)


def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seen: Observation
) -> tuple[int, str]:
    monkeypatch.setattr(nvidia_smi, "probe", lambda: seen)
    return nvidia_smi.main(["-L"]), capsys.readouterr().out


def test_a_whole_gpu_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed(monkeypatch, capsys, Observation(gpus=(GPU,)))
    assert found == (0, "GPU 0: Tesla T4 (UUID: GPU-1)\n")


def test_a_mig_device_is_a_line_below_its_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = ObservedGpu(index=0, uuid="GPU-2", model="NVIDIA A100-SXM4-40GB", devices=(DEVICE,))
    code, text = printed(monkeypatch, capsys, Observation(gpus=(cut,)))
    assert (code, text.splitlines()) == (
        0,
        [
            "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-2)",
            "  MIG 1g.5gb       Device  0: (UUID: MIG-1)",
        ],
    )


@pytest.mark.parametrize(
    ("seen", "code", "text"),
    [
        (Observation(), 6, "No devices were found"),
        (
            Observation(failure=Failure(call="nvmlInit", code=9, text="Driver Not Loaded")),
            9,
            "couldn't communicate with the NVIDIA driver: Driver Not Loaded",
        ),
    ],
)
def test_without_a_device_it_fails_as_nvidias_own_does(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seen: Observation,
    code: int,
    text: str,
) -> None:
    found, said = printed(monkeypatch, capsys, seen)
    assert found == code
    assert text in said


def test_unsupported_options_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert nvidia_smi.main(["--gpu-reset"]) == 2
    assert "simulated: nvidia-smi --gpu-reset: only -L and [-i GPU] -c " in capsys.readouterr().err
