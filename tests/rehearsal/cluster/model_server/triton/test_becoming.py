"""What tritonserver is started with in a pod of a rehearsal."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slicewright.node_agent.nvml.observed import Observation, ObservedGpu
from slicewright.rehearsal.cluster.model_server.devices import Device, NoDevice
from slicewright.rehearsal.cluster.model_server.triton import __main__ as becoming
from slicewright.rehearsal.cluster.model_server.triton import repository
from slicewright.rehearsal.host.toolchain import triton
from tests.rehearsal.cluster.model_server.test_devices import cut, partition, whole

SERVER = Path("/cache/bin") / triton.PROGRAM


def test_the_pods_arguments_stay_and_it_serves_at_the_pods_address() -> None:
    asked = ["--model-repository=/models", "--exit-timeout-secs=55"]
    made = becoming.arguments_of(asked, SERVER, "127.3.1.4")
    assert made[:2] == asked
    assert set(made[2:]) == {
        "--backend-directory=/cache/bin/pytriton/tritonserver/backends",
        "--http-address=127.3.1.4",
        "--grpc-address=127.3.1.4",
        "--metrics-address=127.3.1.4",
    }


def test_settings_of_the_pod_are_not_added_twice() -> None:
    asked = ["--http-address=127.0.0.1", "--backend-directory=/mine"]
    made = becoming.arguments_of(asked, SERVER, "127.3.1.4")
    assert [one.partition("=")[0] for one in made] == [
        "--http-address",
        "--backend-directory",
        "--grpc-address",
        "--metrics-address",
    ]


def test_the_backends_interpreter_sees_this_source_tree_and_numpy_and_no_other_packages(
    tmp_path: Path,
) -> None:
    wheels = tmp_path / "wheels"
    (wheels / "numpy").mkdir(parents=True)
    (wheels / "numpy" / "__init__.py").write_text("__version__ = '1.26.4'\n")
    (wheels / "numpy.libs").mkdir()
    python = becoming.interpreter(tmp_path / "environment", wheels) / "python3"
    code = "import numpy, rehearsal, sys; print(numpy.__version__)\nimport pydantic"
    asked = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert asked.stdout == "1.26.4\n"
    assert "No module named 'pydantic'" in asked.stderr
    assert sys.version_info[:2] == tuple(
        map(int, next((tmp_path / "environment/lib").iterdir()).name[6:].split("."))
    )


def test_a_partition_has_its_multiprocessors_share_of_its_own_gpu() -> None:
    a100, other = whole(0, 98), whole(1, 132)
    cut_up = replace(a100, mig="enabled", devices=(partition("MIG-a", 14), partition("MIG-b", 42)))
    seen = Observation(gpus=(other, cut_up))
    first, second = (
        Device(uuid=uuid, name=uuid, multiprocessors=count, memory_mib=4864)
        for uuid, count in (("MIG-a", 14), ("MIG-b", 42))
    )
    assert becoming.share_of(first, seen) == pytest.approx(1 / 7)
    assert becoming.share_of(second, seen) == pytest.approx(3 / 7)


def test_a_whole_gpu_has_all_of_its_time_even_where_nvml_tells_no_multiprocessors() -> None:
    t4 = Device(uuid="GPU-0", name="Tesla T4", multiprocessors=None, memory_mib=15360)
    assert becoming.share_of(t4, Observation(gpus=(ObservedGpu(index=0, uuid="GPU-0"),))) == 1.0


def test_a_partition_of_a_gpu_whose_size_is_not_known_is_no_device() -> None:
    seen = Observation(gpus=(cut(0, partition("MIG-a", 14)),))
    device = Device(uuid="MIG-a", name="MIG", multiprocessors=14, memory_mib=4864)
    with pytest.raises(NoDevice, match="does not tell the multiprocessors of MIG-a"):
        becoming.share_of(device, seen)


@pytest.mark.parametrize("milliseconds", [0.5, 10.0])
def test_a_repository_has_each_model_with_its_labels(tmp_path: Path, milliseconds: float) -> None:
    repository.write(tmp_path, ["a", "b"], gpu_milliseconds=milliseconds)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "b"]
    for name in ("a", "b"):
        config = (tmp_path / name / "config.pbtxt").read_text()
        assert f'name: "{name}"' in config
        assert f'string_value: "{milliseconds:g}"' in config
        assert "KIND_CPU" in config
        labels = (tmp_path / name / "labels.txt").read_text().splitlines()
        assert len(set(labels)) == 1000
        assert labels[504] == repository.label(504)
        compile((tmp_path / name / "1" / "model.py").read_text(), "model.py", "exec")
