"""The programs that run for images."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slicewright.rehearsal.cluster.control_plane.process_images import runs_as_process
from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import Unsupported
from slicewright.rehearsal.cluster.kubelet.containers.images import (
    environment,
    home,
    program,
    repository,
    user,
    working_directory,
)
from slicewright.rehearsal.host.toolchain import Toolchain, triton

TOOLS = Toolchain(
    pulumi=Path("/t/pulumi"),
    control_plane=Path("/t/cp"),
    kwok=Path("/t/kwok"),
    mig_parted=Path("/t/parted/nvidia-mig-parted"),
    mig_manager=Path("/t/manager"),
    device_plugin=Path("/t/plugin"),
    gpu_feature_discovery=Path("/t/gfd"),
    config_manager=Path("/t/config-manager/config-manager"),
    mps_control_daemon=Path("/t/mps/mps-control-daemon"),
    gke_device_plugin=Path("/t/gke"),
    fake_nvml=Path("/t/nvml/libnvidia-ml.so.1"),
    fake_cuda=Path("/t/cuda/libcuda.so.1"),
)
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
MONITORING = replace(
    TOOLS,
    prometheus=Path("/t/prometheus"),
    prometheus_operator=Path("/t/prometheus-operator"),
    config_reloader=Path("/t/reloader"),
    keda=Path("/t/keda"),
    keda_adapter=Path("/t/keda-adapter"),
    prometheus_adapter=Path("/t/prometheus-adapter"),
)


def argv(image: str, *command: str, args: tuple[str, ...] = ()) -> tuple[str, ...]:
    assert runs_as_process(image)
    return program(image, command, args, TOOLS, Path("/shims")).argv


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("python:3.13", "python"),
        ("docker.io/library/python:3.13-slim@sha256:ab", "docker.io/library/python"),
        ("localhost:5000/x/y", "localhost:5000/x/y"),
        ("localhost:5000/x/y:v1", "localhost:5000/x/y"),
    ],
)
def test_a_repository_is_the_image_without_tag_and_digest(image: str, name: str) -> None:
    assert repository(image) == name


def test_the_command_selects_one_of_an_images_programs_on_its_path() -> None:
    assert argv(PLUGIN, "nvidia-device-plugin", args=("--mig-strategy=mixed",)) == (
        "nvidia-device-plugin",
        "--mig-strategy=mixed",
    )
    assert argv(PLUGIN, "/usr/bin/gpu-feature-discovery", "--oneshot") == (
        "gpu-feature-discovery",
        "--oneshot",
    )
    assert argv(PLUGIN) == ("nvidia-device-plugin",)
    assert argv(PLUGIN, "/bin/sh", "-c", args=("/bin/entrypoint.sh",)) == (
        "sh",
        "-c",
        "exec /bin/entrypoint.sh",
    )
    loop = "until [ -f x ]; do sleep 5; done"
    assert argv(PLUGIN, "sh", "-c", args=(loop,)) == ("sh", "-c", loop)


VLLM = "vllm/vllm-openai:v0.6.2"


def test_vllms_server_is_the_stand_in_however_it_is_called() -> None:
    stand_in = (sys.executable, "-m", "slicewright.rehearsal.cluster.model_server")
    assert argv(VLLM, args=("--model=a",)) == (*stand_in, "--model=a")
    assert argv(f"docker.io/{VLLM}") == stand_in
    module = ("/usr/bin/python3", "-m", "vllm.entrypoints.openai.api_server")
    assert argv(VLLM, *module, "--port=1", args=("--model=a",)) == (
        *stand_in,
        "--port=1",
        "--model=a",
    )
    # Found on PATH among the stand-ins.
    assert argv(VLLM, "/usr/local/bin/vllm", "serve", "a") == ("vllm", "serve", "a")
    assert argv(VLLM, "nvidia-smi", "-L") == ("nvidia-smi", "-L")


@pytest.mark.parametrize(
    ("image", "release"),
    [
        (VLLM, "0.6.2"),
        ("vllm/vllm-openai@sha256:ab", ""),
        (f"{VLLM}@sha256:ab", "0.6.2"),
        ("vllm/vllm-openai:latest", "latest"),
    ],
)
def test_it_gets_the_release_of_the_image(image: str, release: str) -> None:
    assert environment(image)["SLICEWRIGHT_REHEARSAL_RELEASE"] == release


def test_vllms_image_finds_the_driver_where_gke_mounts_it() -> None:
    assert "/usr/local/nvidia/lib64" in environment(VLLM)["LD_LIBRARY_PATH"].split(":")


NFD = "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"
NFDS_OWN = replace(
    TOOLS, nfd_worker=Path("/t/nfd-worker"), nfd_master=Path("/t/nfd-master"), nfd_gc=Path("/t/gc")
)


@pytest.mark.parametrize(
    ("command", "args", "module"),
    [
        ("nfd-worker", ("-port=8080",), "worker"),
        ("nfd-master", ("-enable-leader-election",), "master"),
        ("nfd-master", ("-prune",), "prune"),
        ("nfd-gc", ("-gc-interval=1h",), "collector"),
    ],
)
def test_programs_of_node_feature_discovery_are_stand_ins_with_the_same_arguments(
    command: str, args: tuple[str, ...], module: str
) -> None:
    stand_in = f"slicewright.rehearsal.cluster.feature_discovery.{module}"
    assert argv(NFD, command, args=args) == (sys.executable, "-m", stand_in, *args)


@pytest.mark.parametrize(
    ("command", "args", "path"),
    [
        ("nfd-worker", ("-port=8080",), "/t/nfd-worker"),
        ("nfd-master", ("-prune",), "/t/nfd-master"),
        ("nfd-gc", (), "/t/gc"),
    ],
)
def test_or_its_own_where_the_environment_has_them(
    command: str, args: tuple[str, ...], path: str
) -> None:
    assert program(NFD, (command,), args, NFDS_OWN, Path("/shims")).argv == (path, *args)


@pytest.mark.parametrize(
    ("image", "uid"),
    [
        (NFD, 65534),
        ("nvcr.io/nvidia/gpu-operator:v26.7.0", 65532),
        (PLUGIN, 0),
    ],
)
def test_an_image_has_a_user_of_its_own(image: str, uid: int) -> None:
    assert user(image) == uid


def test_nvidias_images_ask_for_every_gpu_themselves() -> None:
    assert environment(PLUGIN)["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert environment("python:3.13") == {}


def test_mig_manager_finds_mig_parted_and_our_chroot_first() -> None:
    made = program(
        "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0",
        ("nvidia-mig-manager",),
        (),
        TOOLS,
        Path("/shims"),
    )
    assert made.argv == ("nvidia-mig-manager",)
    assert made.path[0] == Path("/shims")
    assert Path("/usr/bin/nvidia-mig-parted") in {target for _, target in made.files}


def test_python_runs_without_this_machines_packages() -> None:
    interpreter, flag, *rest = argv("python:3.13-slim", "python", "/x.pyz", args=("watch",))
    assert Path(interpreter).resolve() == Path(sys.executable).resolve()
    assert flag == "-S"
    assert rest == ["/x.pyz", "watch"]


def test_gkes_plugin_and_the_operator_are_stand_ins() -> None:
    assert argv("gke.gcr.io/nvidia-gpu-device-plugin:1.36", "/usr/bin/x", "-v") == ("/t/gke",)
    assert argv("nvcr.io/nvidia/gpu-operator:v26.7.0", "gpu-operator")[1:] == (
        "-m",
        "slicewright.rehearsal.cluster.gpu_operator",
    )


@pytest.mark.parametrize(
    ("image", "command"),
    [
        (PLUGIN, ("nvidia-smi",)),
        ("nvcr.io/nvidia/driver:580", ()),
        ("nvcr.io/nvidia/tritonserver:1", ()),  # its entrypoint only prints a banner
        ("nvcr.io/nvidia/nemo:1", ("python",)),
    ],
)
def test_an_image_without_a_program_is_refused_by_name(
    image: str, command: tuple[str, ...]
) -> None:
    with pytest.raises(Unsupported, match="has no program"):
        argv(image, *command)


def test_a_workload_finds_nvidia_smi_which_nvidias_operands_do_not() -> None:
    image = "nvcr.io/nvidia/cuda:13.0.1-base-ubuntu24.04"
    asked = ("sh", "-c", "nvidia-smi -L && exec sleep infinity")
    made = program(image, asked, (), TOOLS, Path("/shims"))
    assert made.argv == asked
    assert made.path == (Path("/shims/workloads"),)
    operand = program(PLUGIN, ("nvidia-device-plugin",), (), TOOLS, Path("/shims"))
    assert Path("/shims/workloads") not in operand.path


def test_the_mps_control_daemon_is_nvidias_own_and_finds_nvidia_smi() -> None:
    made = program(PLUGIN, ("mps-control-daemon", "mount-shm"), (), TOOLS, Path("/shims"))
    assert made.argv == ("mps-control-daemon", "mount-shm")
    assert {Path("/t/mps"), Path("/shims"), Path("/shims/workloads")} <= set(made.path)


def test_tritons_own_command_line_starts_its_stand_in() -> None:
    assert argv(
        "nvcr.io/nvidia/tritonserver:23.05-py3",
        "/opt/tritonserver/bin/tritonserver",
        args=("--model-repository=/models",),
    ) == ("tritonserver", "--model-repository=/models")


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (("/opt/tritonserver/bin/tritonserver",), ("--model-repository=/models",)),
        ((), ("tritonserver", "--model-repository=/models")),
    ],
)
def test_with_triton_in_the_toolchain_the_stand_in_knows_where_it_is(
    command: tuple[str, ...], args: tuple[str, ...]
) -> None:
    server = Path("/t/triton") / triton.PROGRAM
    tools = replace(TOOLS, triton=server)
    made = program("nvcr.io/nvidia/tritonserver:23.05-py3", command, args, tools, Path("/shims"))
    assert made.argv == ("tritonserver", "--model-repository=/models")
    assert dict(made.env)["SLICEWRIGHT_REHEARSAL_TRITON"] == str(server)
    assert {Path("/t/triton"), Path("/shims/workloads")} <= {*made.host_paths}


@pytest.mark.parametrize(
    ("image", "runs"),
    [
        ("registry.k8s.io/nfd/node-feature-discovery:v0.19.0 worker", False),
        ("registry.k8s.io/nfd/node-feature-discovery:v0.19.0 master", True),
        ("registry.k8s.io/nfd/node-feature-discovery:v0.19.0 nfd-master", True),
        ("nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0", False),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", False),
        ("nvcr.io/nvidia/k8s/dcgm-exporter@sha256:00", False),
        ("nvcr.io/nvidia/gpu-operator:v26.7.0", True),
        ("nvcr.io/nvidia/k8s/container-toolkit:v1.20.0", True),
        ("nvcr.io/nvidia/cuda:12.8.1-base-ubuntu22.04", True),
        ("nvcr.io/nvidia/cuda-samples:1", False),
        ("docker.io/library/python:3.13-slim", True),
    ],
)
def test_simulated_operands_have_no_process(image: str, runs: bool) -> None:
    assert runs_as_process(*image.split(), operands="simulated") is runs


def test_dcgms_exporter_has_a_stand_in_where_a_prometheus_may_ask_it() -> None:
    image = "nvcr.io/nvidia/k8s/dcgm-exporter@sha256:00"
    assert runs_as_process(image)
    made = program(image, (), (), MONITORING, Path("/shims"))
    assert made.argv == (sys.executable, "-m", "slicewright.rehearsal.cluster.dcgm_exporter")
    assert argv(image)[0] == "/bin/sh"
    assert environment(image)["NVIDIA_VISIBLE_DEVICES"] == "all"


def on_its_address(image: str, *args: str) -> tuple[str, ...]:
    return program(image, ("/bin/x",), args, MONITORING, Path("/shims"), address="127.30.1.2").argv


def test_programs_that_serve_listen_on_their_pods_address_only() -> None:
    prometheus = "quay.io/prometheus/prometheus:v3.13.5"
    assert runs_as_process(prometheus)
    listening = "--web.listen-address=127.30.1.2:9090"
    assert on_its_address(prometheus, "--config.file=/c") == (
        "/t/prometheus",
        "--config.file=/c",
        listening,
    )
    for given in (":9090", "0.0.0.0:9090", "127.0.0.1:9090"):
        asked = f"--web.listen-address={given}"
        assert on_its_address(prometheus, asked) == ("/t/prometheus", listening)
    # An address that somebody chose stays.
    other = "--web.listen-address=127.9.9.9:9090"
    assert on_its_address(prometheus, other) == ("/t/prometheus", other)
    assert on_its_address("ghcr.io/kedacore/keda:2.21.0", "--leader-elect") == (
        "/t/keda",
        "--leader-elect",
        "--metrics-bind-address=127.30.1.2:8080",
        "--health-probe-bind-address=127.30.1.2:8081",
        "--metrics-service-bind-address=127.30.1.2:9666",
    )
    server = "ghcr.io/kedacore/keda-metrics-apiserver:2.21.0"
    assert runs_as_process(server)
    assert on_its_address(server, "--secure-port=6443") == (
        "/t/keda-adapter",
        "--secure-port=6443",
        "--bind-address=127.30.1.2",
    )
    adapter = "registry.k8s.io/prometheus-adapter/prometheus-adapter:v0.12.0"
    assert runs_as_process(adapter)
    assert on_its_address(adapter, "--secure-port=6443") == (
        "/t/prometheus-adapter",
        "--secure-port=6443",
        "--bind-address=127.30.1.2",
    )


def test_the_config_reloader_reaches_prometheus_in_its_own_pod() -> None:
    reloader = "quay.io/prometheus-operator/prometheus-config-reloader:v0.85.0"
    assert on_its_address(
        reloader, "--listen-address=:8080", "--reload-url=http://127.0.0.1:9090/-/reload"
    ) == (
        "/t/reloader",
        "--listen-address=127.30.1.2:8080",
        "--reload-url=http://127.30.1.2:9090/-/reload",
    )


def test_a_program_that_was_not_obtained_is_named_with_what_to_do() -> None:
    with pytest.raises(Unsupported, match=r"kedacore/keda: .* --with all"):
        program("ghcr.io/kedacore/keda:2.21.0", (), (), TOOLS, Path("/shims"))


def test_images_of_monitoring_run_as_their_own_users() -> None:
    assert user("quay.io/prometheus/prometheus:v3.13.5") == 65534
    assert user("ghcr.io/kedacore/keda:2.21.0") == 65532


def test_root_is_at_home_in_root_and_a_user_that_the_image_lacks_in_the_root_directory() -> None:
    assert (home(0), home(1000)) == ("/root", "/")


def test_the_servers_begin_in_the_directories_of_their_images() -> None:
    assert working_directory("vllm/vllm-openai:v0.6.2") == "/vllm-workspace"
    assert working_directory("nvcr.io/nvidia/tritonserver:23.05-py3") == "/opt/tritonserver"
    assert working_directory("python:3.13") == "/"


ENGINES = "slicewright.rehearsal.cluster.vgpu"
VOLCANO = replace(TOOLS, volcano_scheduler=Path("/t/vcs"), volcano_controllers=Path("/t/vcc"))


@pytest.mark.parametrize("registry", ["docker.io", "mirror.example/hub"])
def test_volcanos_programs_are_its_own_and_its_device_plugin_is_a_stand_in(registry: str) -> None:
    def runs(name: str, *command: str) -> tuple[str, ...]:
        image = f"{registry}/{name}:v1"
        assert runs_as_process(image)
        shims = Path("/shims")
        return program(image, command, ("-v=3",), VOLCANO, shims, address="127.5.0.9").argv

    scheduler = runs("volcanosh/vc-scheduler")
    assert scheduler[:2] == ("/t/vcs", "-v=3")
    assert set(scheduler[2:]) == {
        "--listen-address=127.5.0.9:8080",
        "--healthz-address=127.5.0.9:11251",
    }
    assert "--listen-address=127.5.0.9:8081" in runs("volcanosh/vc-controller-manager")
    assert runs("projecthami/volcano-vgpu-device-plugin")[1:] == ("-m", ENGINES, "volcano")
    monitor = runs("projecthami/volcano-vgpu-device-plugin", "/bin/bash", "-c", "monitor")
    assert monitor[0] == "/bin/sh"


def test_volcanos_scheduler_needs_its_group_of_tools() -> None:
    with pytest.raises(Unsupported, match="made without its program"):
        argv("docker.io/volcanosh/vc-scheduler:v1.15.1")


def test_hamis_scheduler_is_kubernetes_own_with_a_stand_in_for_the_extender() -> None:
    scheduler = argv("registry.k8s.io/kube-scheduler:v1.36.2", "kube-scheduler", "--config=/c")
    assert scheduler[1:] == ("-m", f"{ENGINES}.kube_scheduler", "/t/cp", "--config=/c")
    hami = "docker.io/projecthami/hami:v2.10.0"
    extender = argv(hami, "scheduler", "--http_bind=0.0.0.0:9443")
    assert extender[1:] == ("-m", f"{ENGINES}.hami_server", "--http_bind=0.0.0.0:9443")
    assert argv(hami, "nvidia-device-plugin", "--config-file=/x")[1:] == ("-m", ENGINES, "hami")
    assert argv(hami, "vGPUmonitor")[0] == "/bin/sh"
