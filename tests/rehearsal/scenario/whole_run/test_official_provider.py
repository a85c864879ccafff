"""S1 with Pulumi's own kubernetes provider in place of the rehearsal's, and by it Helm's own code.

The chart is the stand-in's, written out for Helm. NVIDIA's own is run where a machine has it: its
path is in SLICEWRIGHT_TEST_GPU_OPERATOR_CHART.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from infra import plan, values
from infra.plan import EksFleetPlan
from kubeapi import Client
from rehearsal.host.toolchain import workload_tools
from rehearsal.plugins import charts
from rehearsal.plugins.charts import packaged
from rehearsal.scenario import official_plugins, proof
from rehearsal.scenario.engine_runs import Engine
from rehearsal.scenario.environment import Environment

pytestmark = [pytest.mark.rehearsal, pytest.mark.soak, pytest.mark.timeout(3600)]
CHART_VARIABLE = "SLICEWRIGHT_TEST_GPU_OPERATOR_CHART"
WRITTEN_OUT, NVIDIAS = "written-out", "nvidias"
ADDRESS = {"repository": "https://helm.ngc.nvidia.com/nvidia", "version": None}
(PROVIDER,) = workload_tools.of([workload_tools.PROVIDER])


@pytest.fixture(scope="module")
def built(one_tool: Callable[[str], Path]) -> Path:
    """Found in the user's own home, so before `confined`."""
    return one_tool("pulumi_kubernetes")


@pytest.fixture(scope="module")
def provider(built: Path, confined: Path) -> Iterator[Path]:
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
    request: pytest.FixtureRequest, provider: Path, make_environment: Callable[[str], Environment]
) -> Engine:
    environment = make_environment(f"s1-{request.param}")
    assert (environment.root / "bin" / "pulumi-resource-kubernetes").resolve() == provider.resolve()
    write_stack(environment, "all-1g.5gb")
    engine = Engine(environment, "s1", print)
    assert engine.init().code == 0
    return engine


def write_stack(environment: Environment, layout: str) -> None:
    """S1 with this layout, and the chart as a file or directory."""
    file = environment.stack_file("s1")
    stack = yaml.safe_load(file.read_text())
    fleet = stack["config"]["slicewright:fleet"]
    (pool,) = fleet["node_pools"]
    pool["partition"]["config"] = layout
    own = environment.root / f"chart-{layout}"
    given = environment.stack.endswith(NVIDIAS)
    chart = Path(os.environ[CHART_VARIABLE]).resolve() if given else own
    fleet["gpu_operator"]["chart_path"] = str(chart)
    file.write_text(yaml.safe_dump(stack, sort_keys=False))
    if not given:
        write_out(file, own)


def write_out(file: Path, directory: Path) -> None:
    """The chart that a stack file names, with its values."""
    planned = plan.read_file(file)
    assert isinstance(planned, EksFleetPlan)
    settings = values.operator_values(planned, values.operator_files(planned))
    chart = charts.find("gpu-operator", **ADDRESS)
    assert chart.check(settings) == []
    packaged.write(
        chart,
        settings,
        release=planned.operator.release,
        namespace=planned.operator.namespace,
        directory=directory,
    )


@pytest.fixture(scope="module")
def client(engine: Engine) -> Client:
    up = engine.up()
    assert up.code == 0, up.output
    return Client.from_kubeconfig(next(iter(engine.environment.kubeconfigs().values())))


def test_every_node_offers_its_56_partitions(client: Client) -> None:
    fleet = proof.read_released_fleet(client)
    assert all(check.holds for check in proof.of_fleet("s1", fleet)), proof.of_fleet("s1", fleet)
    assert [dict(node.advertised()) for node in fleet] == [{"nvidia.com/mig-1g.5gb": 56}]


def test_the_release_is_helms_own(client: Client) -> None:
    secrets = client.get("/api/v1/namespaces/gpu-operator/secrets")["items"]
    releases = [one for one in secrets if one["type"] == "helm.sh/release.v1"]
    assert [one["metadata"]["labels"]["status"] for one in releases] == ["deployed"]


def test_a_second_up_reports_no_changes(client: Client, engine: Engine) -> None:
    again = engine.up("--expect-no-changes")
    assert again.code == 0, again.output


def test_nor_does_one_that_reads_everything_first(client: Client, engine: Engine) -> None:
    again = engine.up("--refresh", "--expect-no-changes")
    assert again.code == 0, again.output


def test_another_layout_makes_16_8_and_8(client: Client, engine: Engine) -> None:
    write_stack(engine.environment, "all-balanced")
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
