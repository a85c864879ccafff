"""The tools of every rehearsal: their versions, official releases, and builds from source.

The Go modules that are built are in `go/`, one per dependency graph, each with its go.sum: what is
built is exactly what was tested. Durations were measured 2026-11-22 on 2 cores with little else
running, the modules being downloaded as well.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_SILICON = _HERE.parents[1] / "cluster" / "silicon"

GO_MINIMUM = (1, 26, 0)
"""The highest `go` line of the modules below."""


def machine() -> str:
    """This machine as the tables name it: `linux-x86_64`, `linux-aarch64`, …"""
    return f"{platform.system().lower()}-{platform.machine()}"


@dataclass(frozen=True, kw_only=True)
class Binary:
    """One file of a tool."""

    field: str
    """The field of Toolchain that holds its path."""
    name: str
    package: str = ""
    """Go import path of its main package; empty for a C library. Of several that are built
    together, its last element must be `name`."""
    ask: tuple[str, ...] = ()
    """Arguments that print its version; empty if there are none."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """The publisher's build. `{version}` is the version without a leading v."""

    files: Mapping[str, str]
    """URL by machine; only where there is a digest to verify it with."""
    sha256: Mapping[str, str]
    """Pinned digest of that file, by machine."""
    checksums: str | None = None
    """URL of the publisher's list of digests, for machines without a pinned one.

    It comes from the same server as the file, so it detects a corrupted download, not a compromised
    publisher.
    """
    member: str | None = None
    """Path of the program in the tar archive; None if the file is the program."""


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module of somebody else's, and what is to be otherwise in it."""

    path: str
    changes: tuple[tuple[str, str, str], ...]
    """(file in it, a text that the file has exactly once, the text in its place)"""


@dataclass(frozen=True, kw_only=True)
class GoModule:
    """Built by `go build` in `directory`, whose go.mod and go.sum pin every dependency."""

    directory: Path
    tags: str = ""
    ldflags: str = "-s -w"
    embedded: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Files that the sources embed and the checkout has not -> module in go.mod, and path in it."""
    changed: Module | None = None
    """Of one module in go.mod, built from a copy with these changes."""


@dataclass(frozen=True, kw_only=True)
class CLibrary:
    """Built by `cc` from every *.c in `directory`, and from `shared` files of another library."""

    directory: Path
    flags: tuple[str, ...]
    shared: tuple[Path, ...] = ()
    """Sources outside `directory`, with the headers that they include."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Programs that are found, downloaded or built together."""

    name: str
    version: str
    """Without a leading v; `own` if the source is in this checkout."""
    binaries: tuple[Binary, ...]
    source: GoModule | CLibrary
    expected_s: float
    """Seconds that a build takes on 2 cores with Go's caches empty."""
    release: Release | None = None
    group: str = ""
    """What it is for; empty for what every rehearsal runs. See workload_tools.py."""

    @property
    def title(self) -> str:
        return self.name if self.version == "own" else f"{self.name} v{self.version}"

    @property
    def on_path(self) -> bool:
        """Whether an installed one may be used: only if it can report its version."""
        return all(binary.ask for binary in self.binaries)


def _nvidia(
    name: str,
    version: str,
    *,
    module: str,
    directory: str,
    binaries: Mapping[str, str],
    expected_s: float,
    ask: tuple[str, ...] = ("--version",),
) -> Tool:
    """Programs of one of NVIDIA's Go modules. binaries: field of Toolchain -> name."""
    return Tool(
        name=name,
        version=version,
        binaries=tuple(
            Binary(field=field, name=binary, package=f"{module}/cmd/{binary}", ask=ask)
            for field, binary in binaries.items()
        ),
        source=GoModule(
            directory=_HERE / "go" / directory,
            # -z lazy as in NVIDIA's Makefiles: go-nvml resolves NVML's symbols when it loads the
            # library, so a program linked with -z now (Ubuntu's default) would not start.
            ldflags=f"-s -w -extldflags=-Wl,-z,lazy -X {module}/internal/info.version=v{version}",
        ),
        expected_s=expected_s,
    )


_PULUMI = "3.259.0"
_KUBERNETES = "1.36.2"
MIG_PARTED = "0.15.1"
DEVICE_PLUGIN = "0.19.3"
_KUBERNETES_VERSION = "k8s.io/component-base/version"

TOOLS: tuple[Tool, ...] = (
    # Quick builds first, so that problems of the machine show within seconds.
    Tool(
        name="fake-nvml",
        version="own",
        binaries=(Binary(field="fake_nvml", name="libnvidia-ml.so.1"),),
        source=CLibrary(
            directory=_SILICON / "library",
            flags=(
                "-shared",
                "-fPIC",
                "-O2",
                "-Wall",
                "-Wextra",
                "-pthread",
                "-Wl,-soname,libnvidia-ml.so.1",
            ),
        ),
        expected_s=2,
    ),
    Tool(
        name="fake-cuda",
        version="own",
        binaries=(Binary(field="fake_cuda", name="libcuda.so.1"),),
        source=CLibrary(
            directory=_SILICON / "cuda_library",
            shared=tuple(
                sorted(
                    _SILICON / "library" / name
                    for name in (
                        "access.c",
                        "clients.c",
                        "health.def",
                        "model.c",
                        "models.def",
                        "nvml_abi.h",
                        "share.c",
                        "silicon.h",
                        "state.c",
                    )
                )
            ),
            flags=(
                "-shared",
                "-fPIC",
                "-O2",
                "-Wall",
                "-Wextra",
                "-Wl,-soname,libcuda.so.1",
            ),
        ),
        expected_s=2,
    ),
    Tool(
        name="gke-gpu-device-plugin",
        version="own",
        binaries=(Binary(field="gke_device_plugin", name="gke-gpu-device-plugin", package="."),),
        source=GoModule(
            directory=_HERE / "go" / "gke_device_plugin", ldflags="-s -w -extldflags=-Wl,-z,lazy"
        ),
        expected_s=37,
    ),
    _nvidia(
        "mig-parted",
        MIG_PARTED,
        module="github.com/NVIDIA/mig-parted",
        directory="mig_parted",
        binaries={"mig_parted": "nvidia-mig-parted", "mig_manager": "nvidia-mig-manager"},
        expected_s=77,
    ),
    _nvidia(
        "device-plugin",
        DEVICE_PLUGIN,
        module="github.com/NVIDIA/k8s-device-plugin",
        directory="device_plugin",
        binaries={
            "device_plugin": "nvidia-device-plugin",
            "gpu_feature_discovery": "gpu-feature-discovery",
        },
        expected_s=89,
    ),
    Tool(
        # Of the same module, but beside it, so that the others are not built again because of it.
        # Its flags cannot report a version.
        name="config-manager",
        version=DEVICE_PLUGIN,
        binaries=(
            Binary(
                field="config_manager",
                name="config-manager",
                package="github.com/NVIDIA/k8s-device-plugin/cmd/config-manager",
            ),
        ),
        source=GoModule(directory=_HERE / "go" / "config_manager"),
        expected_s=50,
    ),
    # Of the same module, too, and beside it for the same reason. It logs before it reports a
    # version.
    _nvidia(
        "mps-control-daemon",
        DEVICE_PLUGIN,
        module="github.com/NVIDIA/k8s-device-plugin",
        directory="mps_control_daemon",
        binaries={"mps_control_daemon": "mps-control-daemon"},
        expected_s=80,
        ask=(),
    ),
    Tool(
        name="kwok",
        version="0.8.0",
        binaries=(
            Binary(
                field="kwok", name="kwok", package="sigs.k8s.io/kwok/cmd/kwok", ask=("--version",)
            ),
        ),
        source=GoModule(directory=_HERE / "go" / "kwok"),
        expected_s=130,
        release=Release(
            files={
                "linux-x86_64": "https://github.com/kubernetes-sigs/kwok/releases/download/v{version}/kwok-linux-amd64"
            },
            # kwok publishes no digests. This is the one that two unrelated projects record for the
            # file: the Arch package kwok-bin 0.8.0, and a pin in a public repository (both read
            # 2026-11-21). For other machines only one record was found, so they build.
            sha256={
                "linux-x86_64": "f5a4385a2ae1b9dd7f8acae18e002a75c0ebba124ae9d7259aa8dadb50711f46"
            },
        ),
    ),
    Tool(
        # No official release: five programs in one binary with a main of our own. Separately
        # installed ones are not used: etcd's flags differ, and five versions would have to match.
        name="control-plane",
        version=_KUBERNETES,
        binaries=(
            Binary(
                field="control_plane",
                name="slicewright-controlplane",
                package=".",
                ask=("kube-apiserver", "--version"),
            ),
        ),
        source=GoModule(
            directory=_HERE / "go" / "controlplane",
            # Without these it reports v0.0.0-master, which clients refuse.
            ldflags=f"-s -w -X {_KUBERNETES_VERSION}.gitVersion=v{_KUBERNETES}"
            f" -X {_KUBERNETES_VERSION}.gitMajor=1 -X {_KUBERNETES_VERSION}.gitMinor=36",
        ),
        expected_s=459,
    ),
    Tool(
        name="pulumi",
        version=_PULUMI,
        binaries=(
            Binary(
                field="pulumi",
                name="pulumi",
                package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
                ask=("version",),
            ),
        ),
        source=GoModule(
            directory=_HERE / "go" / "pulumi",
            tags="osusergo,grpcnotrace",
            ldflags="-s -w -X "
            f"github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{_PULUMI}",
        ),
        expected_s=365,
        release=Release(
            files={
                "linux-x86_64": "https://github.com/pulumi/pulumi/releases/download/v{version}/pulumi-v{version}-linux-x64.tar.gz",
                "linux-aarch64": "https://github.com/pulumi/pulumi/releases/download/v{version}/pulumi-v{version}-linux-arm64.tar.gz",
            },
            sha256={},  # the publisher's list is used
            checksums="https://github.com/pulumi/pulumi/releases/download/v{version}/pulumi-{version}-checksums.txt",
            # Only the engine: it would prefer the archive's language hosts to those on PATH.
            member="pulumi/pulumi",
        ),
    ),
)
