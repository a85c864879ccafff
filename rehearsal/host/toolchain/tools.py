"""The tools of the rehearsal: versions, where a ready one can be downloaded, and how each is built
from source.

The Go modules that are built are in `go/`, one per dependency graph, each with its go.sum: what is
built is exactly what was tested. Durations were measured 2026-11-22 on 2 cores with little else
running, the modules being downloaded as well.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent

GO_MINIMUM = (1, 26, 0)
"""The highest `go` line of the modules below."""


def machine() -> str:
    """This machine as the tables here name it: `linux-x86_64`, `linux-aarch64`, …"""
    return f"{platform.system().lower()}-{platform.machine()}"


@dataclass(frozen=True, kw_only=True)
class Binary:
    """One file that a tool consists of."""

    field: str
    """The field of Toolchain that holds its path."""
    name: str
    package: str = ""
    """Go import path of its main package; empty for a C library."""
    ask: tuple[str, ...] = ()
    """Arguments that make it print its version; empty when it has no such thing."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """The publisher's own build. `{version}` stands for the version without a leading v."""

    files: Mapping[str, str]
    """URL by machine. A machine that is missing here has no official build that we could check."""
    sha256: Mapping[str, str]
    """Pinned digest of that file, by machine."""
    checksums: str | None = None
    """URL of the publisher's list of digests, for machines without a pinned one. It comes from the
    same place as the file, so it proves that nothing was lost or changed on the way, not that the
    publisher's account is in the right hands.
    """
    member: str | None = None
    """Path of the program inside the file, when that is a tar archive; None when the file is the
    program.
    """


@dataclass(frozen=True, kw_only=True)
class GoModule:
    """Built by `go build` in `directory`, whose go.mod and go.sum fix every dependency."""

    directory: Path
    tags: str = ""
    ldflags: str = "-s -w"


@dataclass(frozen=True, kw_only=True)
class CLibrary:
    """Built by `cc` from every *.c in `directory`."""

    directory: Path
    flags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """What is found, downloaded or built as one."""

    name: str
    version: str
    """Without a leading v; `own` when the source is this checkout's."""
    binaries: tuple[Binary, ...]
    source: GoModule | CLibrary
    expected_s: float
    """Seconds that a build takes on 2 cores with Go's caches empty."""
    release: Release | None = None

    @property
    def title(self) -> str:
        return self.name if self.version == "own" else f"{self.name} v{self.version}"

    @property
    def on_path(self) -> bool:
        """Whether one that is installed already may serve: only if it can say which version
        it is.
        """
        return all(binary.ask for binary in self.binaries)


def _nvidia(
    name: str,
    version: str,
    *,
    module: str,
    directory: str,
    binaries: Mapping[str, str],
    expected_s: float,
) -> Tool:
    """Programs of one of NVIDIA's Go modules, which are all laid out alike. binaries: field of
    Toolchain -> name.
    """
    return Tool(
        name=name,
        version=version,
        binaries=tuple(
            Binary(field=field, name=binary, package=f"{module}/cmd/{binary}", ask=("--version",))
            for field, binary in binaries.items()
        ),
        source=GoModule(
            directory=_HERE / "go" / directory,
            # -z lazy as in NVIDIA's own Makefiles: go-nvml leaves NVML's symbols to be found when
            # the library is loaded, and a linker that binds at start (the default of Ubuntu's gcc)
            # makes a program that never starts.
            ldflags=f"-s -w -extldflags=-Wl,-z,lazy -X {module}/internal/info.version=v{version}",
        ),
        expected_s=expected_s,
    )


_PULUMI = "3.259.0"
_KUBERNETES = "1.36.2"
_MIG_PARTED = "0.13.1"
_DEVICE_PLUGIN = "0.19.0"
_KUBERNETES_VERSION = "k8s.io/component-base/version"

TOOLS: tuple[Tool, ...] = (
    # Quick ones first: what is wrong with the machine shows in seconds, not after ten minutes.
    Tool(
        name="fake-nvml",
        version="own",
        binaries=(Binary(field="fake_nvml", name="libnvidia-ml.so.1"),),
        source=CLibrary(
            directory=_HERE.parents[1] / "cluster" / "silicon" / "library",
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
        _MIG_PARTED,
        module="github.com/NVIDIA/mig-parted",
        directory="mig_parted",
        binaries={"mig_parted": "nvidia-mig-parted", "mig_manager": "nvidia-mig-manager"},
        expected_s=77,
    ),
    _nvidia(
        "device-plugin",
        _DEVICE_PLUGIN,
        module="github.com/NVIDIA/k8s-device-plugin",
        directory="device_plugin",
        binaries={
            "device_plugin": "nvidia-device-plugin",
            "gpu_feature_discovery": "gpu-feature-discovery",
        },
        expected_s=89,
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
            # kwok publishes no list of digests. This one is the digest that two unrelated projects
            # recorded for that file: the Arch package kwok-bin 0.8.0, and a download pin in a
            # public repository (both read 2026-11-21). For other machines only one record was
            # found, which is not enough: they build.
            sha256={
                "linux-x86_64": "f5a4385a2ae1b9dd7f8acae18e002a75c0ebba124ae9d7259aa8dadb50711f46"
            },
        ),
    ),
    Tool(
        # No official build: it is our own main of five official programs. Theirs, installed one by
        # one, do not serve either, because etcd's flags differ from those of this one and five
        # versions would have to fit.
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
            # Without these it reports v0.0.0-master, and clients refuse it.
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
            sha256={},  # none known to us from two sources; the publisher's list serves
            checksums="https://github.com/pulumi/pulumi/releases/download/v{version}/pulumi-{version}-checksums.txt",
            # Only the engine: the archive's language hosts would lie beside it and be found before
            # ours.
            member="pulumi/pulumi",
        ),
    ),
)
