"""The tools that only some rehearsals and tests need, in groups by what they are for.

Each is built as those of `tools.py` are. Building them all takes about as long as building those,
so they are obtained only where a group is asked for: never for stacks that monitor nothing and
scale nothing.

Durations of KEDA were measured on 2 cores with little else running, 2026-11-22. The others are
estimates from builds on a busy machine, Flux's from its processor time.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from slicewright.rehearsal.host.toolchain.errors import ToolchainError
from slicewright.rehearsal.host.toolchain.tools import Binary, GoModule, Module, Tool

_GO = Path(__file__).resolve().parent / "go"
_PROMETHEUS = "3.13.5"
_PROMETHEUS_OPERATOR = "0.85.0"
_KEDA = "2.21.0"
_PROMETHEUS_ADAPTER = "0.12.0"
_ACTIONLINT = "1.7.12"
_PULUMI_KUBERNETES = "4.0.0-20260115033456-f47bc2d6f199"
_PULUMI_KUBERNETES_MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"
_EMBEDDED = "cmd/pulumi-resource-kubernetes"
_FLUX = "1.9.3"
_NFD = "0.19.0"
_NFD_MODULE = "sigs.k8s.io/node-feature-discovery"
_ANYWHERE = 'Addr: fmt.Sprintf(":%d", '
_POD_ADDRESS = 'Addr: fmt.Sprintf("%s:%d", os.Getenv("SLICEWRIGHT_REHEARSAL_POD_ADDRESS"), '
_LISTENS_ON_THE_PODS_ADDRESS = (
    *(
        (f"pkg/{name}/{name}.go", _ANYWHERE, _POD_ADDRESS)
        for name in ("nfd-worker", "nfd-master", "nfd-gc")
    ),
    ("pkg/nfd-gc/nfd-gc.go", '"net/http"', '"net/http"\n\t"os"'),
)
"""All pods share this machine's network, and NFD's programs have no flag for an address: all would
want port 8080, where others can reach it. The variable is of kubelet/pods/launching.py.
"""
_VOLCANO = "1.15.1"
_VOLCANO_MODULE = "volcano.sh/volcano"
_PLACED_LAST = 'const PodQosLevel = "volcano.sh/qos-level"'
_QUEUE_GATE = """

// QueueAllocationGateKey is the scheduling gate of pods whose queue has no room for them yet.
const QueueAllocationGateKey = GroupName + "/queue-allocation-gate\""""
"""The only definition that Volcano 1.15.1 uses and volcano.sh/apis 1.14.0 lacks; the module proxy
has no newer one. Source: volcano-sh/volcano v1.15.1,
docs/design/scheduling-gates-queue-admission.md.
"""
_REPORTED_VERSION = "github.com/prometheus/common/version.Version"


def _of_prometheus_operator(name: str, *, field: str, package: str, expected_s: float) -> Tool:
    return Tool(
        name=name,
        version=_PROMETHEUS_OPERATOR,
        group="monitoring",
        binaries=(
            Binary(
                field=field,
                name=name,
                package=f"github.com/prometheus-operator/prometheus-operator/cmd/{package}",
                ask=("--version",),
            ),
        ),
        source=GoModule(
            directory=_GO / "prometheus_operator",
            ldflags=f"-s -w -X {_REPORTED_VERSION}={_PROMETHEUS_OPERATOR}",
        ),
        expected_s=expected_s,
    )


def _of_keda(name: str, *, field: str, package: str, expected_s: float) -> Tool:
    return Tool(
        name=name,
        version=_KEDA,
        group="autoscaling",
        # They have no flag that only reports a version.
        binaries=(Binary(field=field, name=name, package=package),),
        source=GoModule(
            directory=_GO / "keda",
            ldflags=f"-s -w -X github.com/kedacore/keda/v2/version.Version=v{_KEDA}",
        ),
        expected_s=expected_s,
    )


def _of_flux(name: str, *, field: str, expected_s: float) -> Tool:
    return Tool(
        name=name,
        # Of 1.10 and later the Go modules need a newer Go than this toolchain's.
        version=_FLUX,
        group="gitops",
        # They have no flag that only reports a version.
        binaries=(Binary(field=field, name=name, package=f"github.com/fluxcd/{name}"),),
        source=GoModule(directory=_GO / field),
        expected_s=expected_s,
    )


def _of_volcano(name: str, *, field: str, package: str, expected_s: float) -> Tool:
    return Tool(
        name=name,
        version=_VOLCANO,
        group="volcano",
        # They can report a version, but it is not looked for on PATH: those there may be built with
        # other libraries of Kubernetes.
        binaries=(Binary(field=field, name=name, package=f"{_VOLCANO_MODULE}/cmd/{package}"),),
        source=GoModule(
            directory=_GO / "volcano",
            ldflags=f"-s -w -X {_VOLCANO_MODULE}/pkg/version.Version=v{_VOLCANO}",
            changed=Module(
                path="volcano.sh/apis",
                changes=(
                    (
                        "pkg/apis/scheduling/v1beta1/labels.go",
                        _PLACED_LAST,
                        _PLACED_LAST + _QUEUE_GATE,
                    ),
                ),
            ),
        ),
        expected_s=expected_s,
    )


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="prometheus",
        # As a Go module it is v0.313.5: its path would have to end in /v3 otherwise.
        version=_PROMETHEUS,
        group="monitoring",
        binaries=tuple(
            Binary(
                field=name,
                name=name,
                package=f"github.com/prometheus/prometheus/cmd/{name}",
                ask=("--version",),
            )
            for name in ("prometheus", "promtool")
        ),
        source=GoModule(
            directory=_GO / "prometheus",
            # Without the SDKs of the two dozen clouds in which it could look for targets.
            tags="remove_all_sd,enable_kubernetes_sd",
            ldflags=f"-s -w -X {_REPORTED_VERSION}={_PROMETHEUS}",
        ),
        expected_s=240,
    ),
    _of_prometheus_operator(
        "prometheus-operator", field="prometheus_operator", package="operator", expected_s=150
    ),
    _of_prometheus_operator(
        "prometheus-config-reloader",
        field="config_reloader",
        package="prometheus-config-reloader",
        expected_s=20,
    ),
    # Its scalers import every cloud's SDK, and no build tag leaves them out.
    _of_keda(
        "keda", field="keda", package="github.com/kedacore/keda/v2/cmd/operator", expected_s=430
    ),
    # With a main of our own: see there.
    _of_keda("keda-adapter", field="keda_adapter", package=".", expected_s=80),
    # Apart from KEDA, in whose place it is: a stack has one of the two.
    Tool(
        name="prometheus-adapter",
        version=_PROMETHEUS_ADAPTER,
        group="custom-metrics",
        # It has no flag that only reports a version.
        binaries=(
            Binary(
                field="prometheus_adapter",
                name="prometheus-adapter",
                package="sigs.k8s.io/prometheus-adapter/cmd/adapter",
            ),
        ),
        source=GoModule(directory=_GO / "prometheus_adapter"),
        expected_s=150,
    ),
    Tool(
        name="actionlint",
        version=_ACTIONLINT,
        group="pipelines",
        binaries=(
            Binary(
                field="actionlint",
                name="actionlint",
                package="github.com/rhysd/actionlint/cmd/actionlint",
                ask=("-version",),
            ),
        ),
        source=GoModule(
            directory=_GO / "actionlint",
            ldflags=f"-s -w -X github.com/rhysd/actionlint.version={_ACTIONLINT}",
        ),
        expected_s=40,
    ),
    Tool(
        # A commit of the day before v4.25.0: the module proxy has no release of the provider.
        name="pulumi-kubernetes",
        version=_PULUMI_KUBERNETES,
        group="provider",
        # It has no flag that only reports a version.
        binaries=(
            Binary(field="pulumi_kubernetes", name="pulumi-resource-kubernetes", package="."),
        ),
        source=GoModule(
            directory=_GO / "pulumi_kubernetes",
            ldflags=f"-s -w -X {_PULUMI_KUBERNETES_MODULE}/pkg/version.Version=v"
            + _PULUMI_KUBERNETES,
            embedded={
                name: (_PULUMI_KUBERNETES_MODULE, f"{_EMBEDDED}/{name}")
                for name in ("schema.json", "terraform-mapping.json")
            },
        ),
        expected_s=400,
    ),
    _of_flux("kustomize-controller", field="kustomize_controller", expected_s=300),
    _of_flux("source-controller", field="source_controller", expected_s=600),
    _of_volcano("vc-scheduler", field="volcano_scheduler", package="scheduler", expected_s=240),
    _of_volcano(
        "vc-controller-manager",
        field="volcano_controllers",
        package="controller-manager",
        expected_s=40,
    ),
    Tool(
        # That of NVIDIA's chart v26.7.0.
        name="node-feature-discovery",
        version=_NFD,
        group="feature-discovery",
        # They can report a version, but none on PATH is like these: see the changes.
        binaries=tuple(
            Binary(field=name.replace("-", "_"), name=name, package=f"{_NFD_MODULE}/cmd/{name}")
            for name in ("nfd-worker", "nfd-master", "nfd-gc")
        ),
        source=GoModule(
            directory=_GO / "node_feature_discovery",
            # As in its Makefile: where its pods mount directories of their node.
            ldflags=f"-s -w -X {_NFD_MODULE}/pkg/version.version=v{_NFD}"
            f" -X {_NFD_MODULE}/pkg/utils/hostpath.pathPrefix=/host-",
            changed=Module(
                path=_NFD_MODULE,
                changes=_LISTENS_ON_THE_PODS_ADDRESS,
            ),
        ),
        expected_s=130,
    ),
)

PROVIDER = "provider"
"""The group of Pulumi's own kubernetes provider, which only a test of `make soak` runs."""
FLUX = "gitops"
"""The group of Flux's source-controller and kustomize-controller, likewise."""
FEATURES = "feature-discovery"
"""The group of Node Feature Discovery's own programs, likewise."""
VOLCANO = "volcano"
"""The group of Volcano's scheduler and controllers, for fleets whose engine for fractions it is."""
TRITON = "triton"
"""The group of NVIDIA's Triton, which is not built (triton.py)."""
GROUPS: tuple[str, ...] = (*dict.fromkeys(tool.group for tool in TOOLS), TRITON)
"""monitoring: Prometheus, promtool, prometheus-operator; autoscaling: KEDA;
custom-metrics: prometheus-adapter; pipelines: actionlint, for tests only; provider, gitops and
feature-discovery: Pulumi's kubernetes provider, Flux's two controllers and the programs of Node
Feature Discovery, for tests of `make soak` only; triton.
"""
OF_TESTS: tuple[str, ...] = tuple(
    group for group in GROUPS if group not in (PROVIDER, FLUX, FEATURES, VOLCANO)
)
"""Those that `make test-all` needs, and `--with all` obtains."""


def of(groups: Collection[str]) -> tuple[Tool, ...]:
    """Those of these groups that are built. Raises ToolchainError for a group that is none."""
    if unknown := sorted(set(groups) - set(GROUPS)):
        raise ToolchainError(
            f"no group of tools is called {', '.join(unknown)}; there are {', '.join(GROUPS)}"
        )
    return tuple(tool for tool in TOOLS if tool.group in groups)
