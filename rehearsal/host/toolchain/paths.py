"""The paths of the tools of one rehearsal; every environment keeps them as toolchain.json."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path

from slicewright.rehearsal.host.toolchain.errors import ToolchainError


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """Absolute paths of the tools."""

    pulumi: Path
    control_plane: Path
    """etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl in one binary,
    selected by the first argument.
    """
    kwok: Path
    mig_parted: Path
    mig_manager: Path
    device_plugin: Path
    gpu_feature_discovery: Path
    config_manager: Path
    """Chooses the device plugin's config by a label of its node."""
    mps_control_daemon: Path
    """Starts CUDA's MPS control programs, one per shared resource, and gives them their limits."""
    gke_device_plugin: Path
    fake_nvml: Path
    """The fake libnvidia-ml.so.1, in a directory of its own."""
    fake_cuda: Path
    """The fake libcuda.so.1, in a directory of its own."""

    # Of workload_tools.py; None where an environment was made without their group.
    prometheus: Path | None = None
    promtool: Path | None = None
    prometheus_operator: Path | None = None
    config_reloader: Path | None = None
    """Fills in Prometheus's configuration file and has it read again, beside it in its pod."""
    keda: Path | None = None
    """KEDA's operator."""
    keda_adapter: Path | None = None
    """KEDA's server of the API external.metrics.k8s.io."""
    prometheus_adapter: Path | None = None
    """The server of the API custom.metrics.k8s.io."""
    actionlint: Path | None = None
    """Of tests only: it reads GitHub's workflows."""
    pulumi_kubernetes: Path | None = None
    """Of tests only: Pulumi's own kubernetes provider."""
    kustomize_controller: Path | None = None
    """Flux's, of tests only: it applies what is in a repository."""
    source_controller: Path | None = None
    """Flux's, of tests only: it fetches that repository."""
    nfd_worker: Path | None = None
    """Node Feature Discovery's own; without it, stand-ins are in its pods."""
    nfd_master: Path | None = None
    nfd_gc: Path | None = None
    volcano_scheduler: Path | None = None
    volcano_controllers: Path | None = None
    """Volcano's controllers; they make a PodGroup for each pod of its scheduler."""
    triton: Path | None = None
    """NVIDIA's tritonserver, in the tree of its wheel."""

    def dump(self, path: Path) -> None:
        """Replaces `path` atomically."""
        beside = path.with_name(path.name + ".new")
        beside.write_text(
            json.dumps(
                {name: str(value) for name, value in asdict(self).items() if value is not None},
                indent=2,
            )
            + "\n"
        )
        beside.replace(path)

    @classmethod
    def load(cls, path: Path) -> Toolchain:
        """Raises ToolchainError if `path` is not a valid toolchain.json."""
        try:
            read = json.loads(path.read_text())
            return cls(
                **{
                    field.name: Path(read[field.name])
                    for field in fields(cls)
                    if field.default is MISSING or field.name in read
                }
            )
        except OSError as e:
            raise ToolchainError(f"{path}: {e.strerror}") from e
        except (ValueError, KeyError, TypeError) as e:
            raise ToolchainError(
                f"{path}: not the paths of a toolchain ({type(e).__name__}: {e}); create the "
                "environment again"
            ) from e
