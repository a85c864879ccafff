"""The file system of one simulated node: the files of its kernel, its driver and its cloud."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from slicewright.rehearsal.cluster.node import containerd, os_release
from slicewright.rehearsal.cluster.node.containerd import Containerd
from slicewright.rehearsal.cluster.node.machine import Machine, read
from slicewright.rehearsal.cluster.silicon import device_nodes, state
from slicewright.rehearsal.cluster.silicon.models import Model
from slicewright.rehearsal.cluster.silicon.node_silicon import NodeSilicon

_VALIDATIONS = "run/nvidia/validations"
_GPU_TURNS = "run/simulated-gpu-turns"
_DRIVER_VERSION = "proc/driver/nvidia/version"
_DRIVER_CONTAINER = "run/nvidia/driver"
"""Where NVIDIA's driver container mounts its own root file system."""
_LIBRARIES: Mapping[str, str] = {
    "eks": "usr/lib64",
    "gke": "home/kubernetes/bin/nvidia/lib64",
    "byo": "usr/lib64",
}
"""By cloud: where the driver's libraries are. Sources: awslabs/amazon-eks-ami; GKE's device plugin.
Of other nodes: one of the places where NVIDIA's operands look (NVIDIA/nvidia-container-toolkit,
internal/lookup/root).
"""

_CONTAINERD_NVIDIA = """\
version = 3
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options]
  BinaryName = "/usr/bin/nvidia-container-runtime"
"""


class _Tools(Protocol):
    @property
    def fake_nvml(self) -> Path: ...

    @property
    def fake_cuda(self) -> Path: ...


@dataclass(frozen=True)
class NodeFiles:
    """The directory of one node: `root/` is its file system, `silicon/` its GPUs."""

    directory: Path

    @property
    def root(self) -> Path:
        return self.directory / "root"

    @property
    def silicon(self) -> Path:
        """The GPU state file (slicewright.rehearsal.cluster.silicon.state); absent on nodes without
        GPUs.
        """
        return self.directory / "silicon" / "state"

    @property
    def driver_loaded(self) -> bool:
        """Whether the driver is installed and its kernel module loaded."""
        return (self.root / _DRIVER_VERSION).exists()

    @property
    def runtimes(self) -> frozenset[str]:
        """The handlers of runtime classes that containerd is configured for, besides its own."""
        return self.containerd.runtimes

    @property
    def containerd(self) -> Containerd:
        """Its configuration of this moment."""
        return containerd.read(self.root)

    @property
    def device_plugins(self) -> Path:
        """The kubelet's directory of device plugin sockets."""
        return self.root / "var/lib/kubelet/device-plugins"

    @property
    def pod_resources(self) -> Path:
        """The kubelet's directory of the pod-resources socket."""
        return self.root / "var/lib/kubelet/pod-resources"

    @property
    def system_bus(self) -> Path:
        """Where the node's system D-Bus listens (slicewright.rehearsal.cluster.node.fake_dbus)."""
        return self.root / "run/dbus/system_bus_socket"


def build(
    node_dir: Path,
    machine: Mapping[str, Any] | Machine,
    toolchain: _Tools,
    *,
    with_software: bool = True,
) -> NodeFiles:
    """Creates or renews the files of a node below `node_dir`; existing GPUs keep their state.

    machine: the annotation's JSON, or a Machine. toolchain: for its fake NVML and CUDA.
    with_software: with the driver and the container toolkit of the node's image; else they are left
    to `install_driver` and `configure_containerd`, as is a driver that is not in the image. Raises
    BadMachine, UnknownModel, and ValueError for hardware that the fake does not have.
    """
    known = machine if isinstance(machine, Machine) else read(machine)
    node = _bare(node_dir, _product_name(known), _OS_RELEASE[known.cloud])
    if known.gpu_model is None:
        return node
    silicon = state.load(node.silicon) if node.silicon.exists() else _new_silicon(node, known)
    _write_pci(node.root, silicon)
    if known.gke_gpu_config is not None:
        _write(node.root / "etc/nvidia/gpu_config.json", json.dumps(known.gke_gpu_config))
    late = known.driver_after_s or known.driver_by_installer
    by_container = (node.root / _DRIVER_CONTAINER / "usr").exists()
    brought = with_software and known.driver_version and not late
    if brought or (node.driver_loaded and not by_container):
        install_driver(node, toolchain, cloud=known.cloud)
    if with_software:
        configure_containerd(node, for_nvidia=known.toolkit_in_image)
    return node


def reboot(
    node: NodeFiles, *, forgets_driver: bool = False, forgets_settings: bool = False
) -> None:
    """Empties /run, which is a tmpfs, but for the sockets and pipes that the simulation serves.

    forgets_driver: a container or Google's installer has to load the kernel module again.
    forgets_settings: NVIDIA's toolkit has to configure containerd again, because
    Container-Optimized OS keeps no changes of /etc.
    """
    served = {node.root / "run" / name for name in ("dbus", "initctl", "driver-installer")}
    for path in (node.root / "run").iterdir():
        if path in served:
            continue
        if path.is_dir() and not path.is_symlink():
            _remove_directory(path)
        else:
            path.unlink()
    (node.root / _VALIDATIONS).mkdir(parents=True, exist_ok=True)
    _make_turns(node)
    if forgets_settings:
        configure_containerd(node, for_nvidia=False)
    if forgets_driver:
        _unload_module(node.root)


def _remove_directory(path: Path) -> None:
    """Again where it fills meanwhile: a volume of a pod just lost may still be made in it."""
    for left in range(9, -1, -1):
        try:
            shutil.rmtree(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            if not left:
                raise


def install_driver(node: NodeFiles, toolchain: _Tools, *, cloud: str) -> None:
    """Loads the kernel module and installs the library; repeating it renews them."""
    _install(node, toolchain, node.root / _LIBRARIES[cloud])


def load_driver(node: NodeFiles, toolchain: _Tools, version: str) -> None:
    """As NVIDIA's driver container: another version of the driver, in the container's own root."""
    state.set_driver(node.silicon, version)
    _install(node, toolchain, node.root / _DRIVER_CONTAINER / "usr/lib64")


def unload_driver(node: NodeFiles) -> None:
    """The container's driver goes, and with it all partitions; without a driver nothing happens."""
    if not node.driver_loaded:
        return
    _unload_module(node.root)
    state.reboot(node.silicon)
    shutil.rmtree(node.root / _DRIVER_CONTAINER, ignore_errors=True)


def _install(node: NodeFiles, toolchain: _Tools, directory: Path) -> None:
    """In this order, because the library of a program that sees the host's own /dev finds every
    GPU.
    """
    # First: a program that has looked for it in vain never finds a library in it, by glibc.
    directory.mkdir(parents=True, exist_ok=True)
    silicon = state.load(node.silicon)
    _load_module(node.root, silicon)
    _link(toolchain.fake_nvml, directory / "libnvidia-ml.so.1")
    # NVIDIA's device plugin finds the driver by the file with the version if it lists devices by
    # CDI.
    versioned = directory / f"libcuda.so.{silicon.driver_version}"
    _link(toolchain.fake_cuda, versioned)
    _link_name(versioned.name, directory / "libcuda.so.1")
    # Empty: mig-manager looks for it where the driver is not the host's own.
    _write(directory.parent / "bin/nvidia-smi", "")


def configure_containerd(node: NodeFiles, *, for_nvidia: bool) -> None:
    """Adds NVIDIA's runtime to containerd's configuration, or removes it."""
    drop_in = node.root / containerd.DROP_IN
    if for_nvidia:
        _write(drop_in, _CONTAINERD_NVIDIA)
    else:
        drop_in.unlink(missing_ok=True)


def name_system(node: NodeFiles, image: str) -> None:
    """Writes /etc/os-release for the operating system of the Node's osImage."""
    _write(node.root / "etc/os-release", os_release.os_release(image))


def build_without_gpus(node_dir: Path) -> NodeFiles:
    """The files of a node that has no GPUs."""
    return _bare(node_dir, "Simulated machine\n", "ID=linux\n")


_OS_RELEASE = {
    "eks": 'NAME="Amazon Linux"\nVERSION_ID="2023"\nID="amzn"\n',
    "gke": 'NAME="Container-Optimized OS"\nID=cos\n',
    "byo": 'NAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\n',
}
"""By cloud: /etc/os-release of its GPU nodes, as far as node feature discovery reads it."""


_NO_DRIVER = "overlay 151552 12 - Live 0x0000000000000000\n"
"""/proc/modules."""
_NO_SWAP = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
"""/proc/swaps, which Node Feature Discovery's pods mount."""


def _make_turns(node: NodeFiles) -> None:
    """Where servers of any user share a GPU's time (rehearsal/cluster/model_server/turns.py)."""
    directory = node.root / _GPU_TURNS
    directory.mkdir(exist_ok=True)
    directory.chmod(0o777)


def _bare(node_dir: Path, product_name: str, os_release: str) -> NodeFiles:
    node = NodeFiles(node_dir)
    for directory in (
        # Mounted into containers, which then see what the driver adds later.
        "proc/driver",
        "sys/bus/pci/devices",
        "etc",
        "home",
        _VALIDATIONS,
        "run/dbus",
    ):
        (node.root / directory).mkdir(parents=True, exist_ok=True)
    node.device_plugins.mkdir(parents=True, exist_ok=True)
    node.pod_resources.mkdir(parents=True, exist_ok=True)
    _make_turns(node)
    if not (node.root / "var/run").is_symlink():
        (node.root / "var/run").symlink_to("../run")
    _write(node.root / "etc/os-release", os_release)
    _write(node.root / "sys/class/dmi/id/product_name", product_name)
    # Not empty: some programs crash when /proc/modules is empty.
    _write(node.root / "proc/modules", _NO_DRIVER)
    _write(node.root / "proc/swaps", _NO_SWAP)
    return node


def _product_name(machine: Machine) -> str:
    # As in the firmware: AWS has the instance type, Google and OpenStack the product's name.
    match machine.cloud:
        case "gke":
            return "Google Compute Engine\n"
        case "eks":
            return f"{machine.machine_type or 'Amazon EC2'}\n"
        case "byo":
            return "OpenStack Nova\n"


def _new_silicon(node: NodeFiles, machine: Machine) -> NodeSilicon:
    assert machine.gpu_model is not None
    seed = "-".join(node.directory.parts[-3:]).replace(" ", "_")
    return state.create(
        node.silicon, machine.gpu_model, machine.gpu_count, machine.driver_version or "0", seed
    )


def _unload_module(root: Path) -> None:
    _write(root / "proc/modules", _NO_DRIVER)
    (root / _DRIVER_VERSION).unlink(missing_ok=True)


def _load_module(root: Path, silicon: NodeSilicon) -> None:
    _write(
        root / "proc/modules",
        "nvidia_uvm 1445888 0 - Live 0x0000000000000000\nnvidia 56717312 1 nvidia_uvm, "
        "Live 0x0000000000000000\n",
    )
    minors = (f"{name} {minor}" for name, minor in device_nodes.mig_minors(silicon).items())
    _write(root / "proc/driver/nvidia-caps/mig-minors", "\n".join(minors) + "\n")
    _write(
        root / _DRIVER_VERSION,
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {silicon.driver_version}  (simulated)\n",
    )


def _write_pci(root: Path, silicon: NodeSilicon) -> None:
    for gpu in silicon.gpus:
        device = root / "sys/bus/pci/devices" / gpu.pci
        numa = gpu.index * 2 // max(len(silicon.gpus), 2)
        _write(device / "vendor", "0x10de\n")
        _write(device / "device", f"0x{gpu.model.pci_id:04x}\n")
        # Node Feature Discovery passes over a device without these two.
        _write(device / "subsystem_vendor", "0x10de\n")
        _write(device / "subsystem_device", "0x0000\n")
        _write(device / "class", "0x030200\n")
        _write(device / "numa_node", f"{numa}\n")
        _write(device / "resource", _regions(gpu.index))
        (device / "config").write_bytes(_config_space(gpu.model))
        (device / "vfio-dev").mkdir(exist_ok=True)
    # NVIDIA's programs look up names here; without it they parse their own copy at every read.
    kind = silicon.gpus[0].model
    _write(
        root / "usr/share/misc/pci.ids",
        f"10de  NVIDIA Corporation\n\t{kind.pci_id:04x}  {kind.name}\nC 03  Display "
        "controller\n\t02  3D controller\n",
    )


def _regions(index: int) -> str:
    """The thirteen regions of sysfs' `resource` (first address, last, flags), BAR 0 first."""
    bar0 = 0xA0000000 + index * 0x01000000
    lines = [f"0x{bar0:016x} 0x{bar0 + 0xFFFFFF:016x} 0x0000000000040200"]
    return (
        "\n".join(lines + ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 12) + "\n"
    )


def _config_space(kind: Model) -> bytes:
    space = bytearray(256)
    space[0:2] = (0x10DE).to_bytes(2, "little")
    space[2:4] = kind.pci_id.to_bytes(2, "little")
    space[9:12] = bytes((0x00, 0x02, 0x03))
    return bytes(space)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _link_name(name: str, target: Path) -> None:
    """A symbolic link to a file in the same directory, replaced atomically: programs may load it
    meanwhile.
    """
    new = target.with_name(f".{target.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(name)
    new.replace(target)


def _link(source: Path, target: Path) -> None:
    """A hard link, or a copy across file systems; a symbolic link would lead out of the node."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
