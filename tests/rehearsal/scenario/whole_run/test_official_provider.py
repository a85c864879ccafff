"""eks-a100 with Pulumi's own kubernetes provider in place of the rehearsal's, and by it Helm's own
code.

The chart is the stand-in's, written out for Helm; then with the chart of Node Feature Discovery
inside it, as published, with the stand-ins in its pods and with NFD's own programs. NVIDIA's own is
run where a machine has it: its path is in SLICEWRIGHT_TEST_GPU_OPERATOR_CHART.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from slicewright.infra import manifests, plan
from slicewright.infra.plan import EksFleetPlan
from slicewright.kubeapi import Client
from slicewright.rehearsal.host.toolchain import Toolchain, workload_tools
from slicewright.rehearsal.host.toolchain.go_sdk import Sdk
from slicewright.rehearsal.host.toolchain.tools import GoModule
from slicewright.rehearsal.plugins import charts
from slicewright.rehearsal.plugins.charts import packaging
from slicewright.rehearsal.plugins.charts.gpu_operator.values import DEFAULTS
from slicewright.rehearsal.scenario import official_plugins, proof
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.infra.cross_check import go_module
from tests.rehearsal.scenario.stack_edits import edited_fleet

pytestmark = [pytest.mark.rehearsal, pytest.mark.soak, pytest.mark.timeout(3600)]
CHART_VARIABLE = "SLICEWRIGHT_TEST_GPU_OPERATOR_CHART"
WRITTEN_OUT, NFDS_CHART, NFDS_OWN, NVIDIAS = "written-out", "nfds-chart", "nfds-own", "nvidias"
ADDRESS = {"repository": "https://helm.ngc.nvidia.com/nvidia", "version": None}
(PROVIDER,) = workload_tools.of([workload_tools.PROVIDER])
(NFD,) = workload_tools.of([workload_tools.FEATURES])
NFDS_PODS = "app.kubernetes.io/name=node-feature-discovery"
_ACCOUNT = "node-feature-discovery"
_DEFAULTS = DEFAULTS["node-feature-discovery"]
SETTINGS = {
    "priorityClassName": _DEFAULTS["priorityClassName"],
    "master": {
        "serviceAccount": {"name": _ACCOUNT, "create": True},
        "config": _DEFAULTS["master"]["config"],
    },
    "worker": {
        "serviceAccount": {"name": _ACCOUNT, "create": False},
        "tolerations": _DEFAULTS["worker"]["tolerations"],
        "config": _DEFAULTS["worker"]["config"],
    },
    "gc": {"enable": True, "serviceAccount": {"name": _ACCOUNT, "create": False}},
}
"""What NVIDIA's chart sets for the chart inside it. Source: NVIDIA/gpu-operator,
deployments/gpu-operator/values.yaml.
"""


@dataclass(frozen=True, kw_only=True)
class FeatureDiscovery:
    """As its project publishes it."""

    programs: dict[str, Path]
    """By their fields of Toolchain."""
    part: packaging.Part


@pytest.fixture(scope="module")
def built(one_tool: Callable[[str], Path]) -> Path:
    """Found in the user's own home, so before `confined`."""
    return one_tool("pulumi_kubernetes")


@pytest.fixture(scope="module")
def feature_discovery(
    one_tool: Callable[[str], Path], go: tuple[Sdk, dict[str, str]]
) -> FeatureDiscovery:
    """Its chart is in the Go module of its programs."""
    assert isinstance(NFD.source, GoModule)
    assert NFD.source.changed is not None
    module = go_module.directory(go, NFD.source.directory, NFD.source.changed.path)
    chart = module / "deployment/helm/node-feature-discovery"
    return FeatureDiscovery(
        programs={one.field: one_tool(one.field) for one in NFD.binaries},
        part=packaging.Part(
            name="node-feature-discovery",
            chart=chart,
            version=yaml.safe_load((chart / "Chart.yaml").read_text())["version"],
            enabled_by="nfd.enabled",
            settings=SETTINGS,
        ),
    )


@pytest.fixture(scope="module")
def provider(built: Path, feature_discovery: FeatureDiscovery, confined: Path) -> Iterator[Path]:
    """Installed for the user of the rehearsal, as `pulumi plugin install` does."""
    plugin = Path(
        os.environ["HOME"], ".pulumi", "plugins", f"resource-kubernetes-v{PROVIDER.version}"
    )
    plugin.mkdir(parents=True)
    (plugin / built.name).symlink_to(built)
    with pytest.MonkeyPatch.context() as patch:
        for name in (official_plugins.VARIABLE, official_plugins.KUBERNETES_VARIABLE):
            patch.delenv(name, raising=False)
        yield built


@pytest.fixture(
    scope="module",
    params=[
        WRITTEN_OUT,
        NFDS_CHART,
        NFDS_OWN,
        pytest.param(
            NVIDIAS,
            marks=pytest.mark.skipif(
                CHART_VARIABLE not in os.environ,
                reason=f"{CHART_VARIABLE} names no chart: NVIDIA's is on its own server only",
            ),
        ),
    ],
)
def engine(
    request: pytest.FixtureRequest,
    provider: Path,
    feature_discovery: FeatureDiscovery,
    make_environment: Callable[[str], Environment],
) -> Engine:
    environment = make_environment(f"s1-{request.param}")
    assert (environment.root / "bin" / "pulumi-resource-kubernetes").resolve() == provider.resolve()
    if request.param == NFDS_OWN:
        # Read when the cluster is made.
        tools = environment.root / "toolchain.json"
        replace(Toolchain.load(tools), **feature_discovery.programs).dump(tools)
    write_stack(environment, "all-1g.5gb", feature_discovery.part)
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    return engine


def write_stack(environment: Environment, layout: str, nfd: packaging.Part) -> None:
    """eks-a100 with this layout, and the chart as a file or directory."""
    file = environment.stack_file("eks-a100")
    with edited_fleet(file) as fleet:
        (pool,) = fleet["node_pools"]
        pool["partition"]["config"] = layout
        own = environment.root / f"chart-{layout}"
        given = environment.stack.endswith(NVIDIAS)
        chart = Path(os.environ[CHART_VARIABLE]).resolve() if given else own
        fleet["gpu_operator"]["chart_path"] = str(chart)
    if not given:
        write_out(file, own, nfd if "nfds" in environment.stack else None)


def write_out(file: Path, directory: Path, part: packaging.Part | None) -> None:
    """The chart that a stack file names, with its values."""
    planned = plan.read_file(file)
    assert isinstance(planned, EksFleetPlan)
    settings = manifests.operator_values(planned, manifests.operator_files(planned))
    chart = charts.find("gpu-operator", **ADDRESS)
    assert chart.check(settings) == []
    packaging.write(
        chart,
        settings,
        release=planned.operator.release,
        namespace=planned.operator.namespace,
        directory=directory,
        part=part,
    )


def test_every_node_offers_its_56_partitions(client: Client) -> None:
    fleet = proof.read_released_fleet(client)
    assert all(check.holds for check in proof.of_fleet("eks-a100", fleet)), proof.of_fleet(
        "eks-a100", fleet
    )
    assert [dict(node.advertised()) for node in fleet] == [{"nvidia.com/mig-1g.5gb": 56}]


def test_the_release_is_helms_own(client: Client) -> None:
    secrets = client.get("/api/v1/namespaces/gpu-operator/secrets")["items"]
    releases = [one for one in secrets if one["type"] == "helm.sh/release.v1"]
    assert [one["metadata"]["labels"]["status"] for one in releases] == ["deployed"]


def test_node_feature_discovery_is_started_again_by_the_reboot_only(
    client: Client, engine: Engine
) -> None:
    """Its own chart ends containers that do not answer, and has one more than the stand-in."""
    listed = client.get("/api/v1/namespaces/gpu-operator/pods", labelSelector=NFDS_PODS)["items"]
    pods = [(pod["metadata"]["labels"]["role"], pod) for pod in listed]
    collectors = {"gc"} - ({"gc"} if WRITTEN_OUT in engine.environment.stack else set())
    assert {role for role, _ in pods} == {"master", "worker"} | collectors
    for role, pod in pods:
        (status,) = pod["status"]["containerStatuses"]
        node = client.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
        rebooted = "nvidia.com/mig.config" in node["metadata"]["labels"]
        assert (status["ready"], status["restartCount"]) == (True, int(rebooted)), role


def test_a_second_up_reports_no_changes(client: Client, engine: Engine) -> None:
    again = engine.up("--expect-no-changes")
    assert again.code == 0, again.output


def test_up_with_refresh_changes_nothing(client: Client, engine: Engine) -> None:
    again = engine.up("--refresh", "--expect-no-changes")
    assert again.code == 0, again.output


def test_another_layout_makes_16_8_and_8(
    client: Client, engine: Engine, feature_discovery: FeatureDiscovery
) -> None:
    write_stack(engine.environment, "all-balanced", feature_discovery.part)
    up = engine.up()
    assert up.code == 0, up.output
    (node,) = proof.read_released_fleet(client)
    assert dict(node.advertised()) == {
        "nvidia.com/mig-1g.5gb": 16,
        "nvidia.com/mig-2g.10gb": 8,
        "nvidia.com/mig-3g.20gb": 8,
    }


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}
