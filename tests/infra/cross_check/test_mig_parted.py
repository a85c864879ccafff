"""The catalog's named configs against mig-parted's default config and its validator."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewright.infra import catalog, geometry
from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry import Misfit
from tests.properties import examples

CATALOG = catalog.load()
MIG_GPUS = [gpu for gpu in CATALOG.gpus.values() if gpu.family]
pytestmark = pytest.mark.toolchain

NOT_OURS: Mapping[str, str] = {
    # Configs of boards that are not in the catalog.
    **{
        f"all-{p}": "GH200 with 144 GB"
        for p in ("1g.36gb", "2g.36gb", "3g.72gb", "4g.72gb", "7g.144gb")
    },
    **{f"all-{p}": "GB200 boards with other names" for p in ("3g.95gb", "4g.95gb", "7g.189gb")},
}


@pytest.fixture(scope="module")
def default_config(go: Any) -> Mapping[str, list[dict[str, Any]]]:
    """The configs of deployments/systemd/config-default.yaml in the module's own files, which
    go.sum fixes.
    """
    sdk, environment = go
    cross_check = Path(__file__).parents[1] / "cross_check"

    def run(*argv: str) -> str:
        return subprocess.run(
            [sdk.program, *argv],
            cwd=cross_check,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    module = "github.com/NVIDIA/mig-parted"
    run("mod", "download", module)
    directory = Path(run("list", "-m", "-f", "{{.Dir}}", module).strip())
    configs: Mapping[str, list[dict[str, Any]]] = yaml.safe_load(
        (directory / "deployments/systemd/config-default.yaml").read_text()
    )["mig-configs"]
    return configs


def filters(entry: Mapping[str, Any]) -> set[str] | None:
    found = entry.get("device-filter")
    return None if found is None else {found} if isinstance(found, str) else set(found)


def test_catalog_has_the_81_names_except_those_of_other_boards(
    default_config: Mapping[str, list[dict[str, Any]]],
) -> None:
    ours = {name for configs in CATALOG.named_configs.values() for name in configs}
    assert len(default_config) == 81
    assert set(default_config) - ours == set(NOT_OURS)
    assert ours - set(default_config) == set()


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_every_named_config_resolves_on_each_board_as_nvidias(
    gpu: Gpu, default_config: Mapping[str, list[dict[str, Any]]]
) -> None:
    for config in CATALOG.named_configs[gpu.name].values():
        for pci_id in gpu.pci_ids:
            reaching = [
                e for e in default_config[config.name] if (f := filters(e)) is None or pci_id in f
            ]
            if pci_id in config.without:
                assert reaching == [], (config.name, pci_id)
                continue
            (entry,) = reaching
            assert entry["mig-enabled"] == config.mig
            assert entry.get("mig-devices", {}) == dict(config.layout), (config.name, pci_id)


def test_the_balanced_configs_filters_are_the_catalogs_pci_ids(
    default_config: Mapping[str, list[dict[str, Any]]],
) -> None:
    """Every board that NVIDIA tells apart belongs to one GPU here; GH200 with 144 GB is left out on
    purpose.
    """
    theirs = {pci for entry in default_config["all-balanced"] for pci in filters(entry) or ()}
    assert theirs - {pci for gpu in MIG_GPUS for pci in gpu.pci_ids} == {"0x234810DE"}
    assert {pci for gpu in MIG_GPUS for pci in gpu.pci_ids} <= theirs


# ---- the validator
# --------------------------------------------------------------------------------------------------


def rendered(gpu: Gpu, layouts: Mapping[str, Mapping[str, int] | None]) -> dict[str, Any]:
    """A MIG config in its schema v1. None: MIG off."""

    def entry(layout: Mapping[str, int] | None) -> dict[str, Any]:
        if layout is None:
            return {"device-filter": list(gpu.pci_ids), "devices": "all", "mig-enabled": False}
        return {
            "device-filter": list(gpu.pci_ids),
            "devices": "all",
            "mig-enabled": True,
            "mig-devices": dict(layout),
        }

    return {
        "version": "v1",
        "mig-configs": {name: [entry(layout)] for name, layout in layouts.items()},
    }


@pytest.fixture
def accepts(
    one_tool: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Mapping[str, Any], str], str]:
    """Asks nvidia-mig-parted whether a config is valid; the answer is empty, or what it says
    against it.
    """
    program, directory = one_tool("mig_parted"), tmp_path_factory.mktemp("configs")

    def ask(config: Mapping[str, Any], name: str) -> str:
        file = directory / "config.yaml"
        file.write_text(json.dumps(config))
        done = subprocess.run(
            [program, "assert", "--valid-config", "-f", file, "-c", name],
            capture_output=True,
            text=True,
            check=False,
        )
        return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"

    return ask


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_named_configs_and_all_accepted_layouts_are_valid_for_nvidia(
    gpu: Gpu, accepts: Callable[[Mapping[str, Any], str], str]
) -> None:
    """It judges a whole file, so one call takes every layout of the GPU."""
    named = {c.name: c.layout if c.mig else None for c in CATALOG.named_configs[gpu.name].values()}
    every = {f"layout-{i}": layout for i, layout in enumerate(geometry.layouts(gpu))}
    assert accepts(rendered(gpu, {**named, **every}), "all-balanced") == ""


@given(gpu=st.sampled_from(MIG_GPUS), data=st.data())
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_layouts_for_each_gpu_of_a_node_are_valid_for_nvidia(
    gpu: Gpu, data: st.DataObject, accepts: Callable[[Mapping[str, Any], str], str]
) -> None:
    layouts = data.draw(st.lists(st.sampled_from(geometry.layouts(gpu)), min_size=1, max_size=8))
    entries = [
        {"devices": [i], "mig-enabled": True, "mig-devices": dict(layout)}
        for i, layout in enumerate(layouts)
    ]
    assert accepts({"version": "v1", "mig-configs": {"mixed": entries}}, "mixed") == ""


@pytest.mark.parametrize(
    ("gpu", "layout"),
    [
        ("A100-40", {"9g.5gb": 7}),
        ("A100-40", {"4g.20gb": 2}),
        ("A100-80", {"7g.80gb": 3, "1g.10gb": 7}),
        ("A100-40", {"3g.20gb": 2, "1g.5gb": 1}),
        ("H100-80", {"1g.5gb": 7}),
        ("H200", {"1g.18gb+me": 2}),
        ("RTX-PRO-6000", {"1g.24gb+me.all": 1, "1g.24gb": 3}),
        ("A30", {"1g.6gb+me": 1, "2g.12gb+me": 1}),
    ],
    ids=str,
)
def test_we_refuse_what_its_validator_wrongly_accepts(
    gpu: str, layout: dict[str, int], accepts: Callable[[Mapping[str, Any], str], str]
) -> None:
    assert accepts(rendered(CATALOG.gpus[gpu], {"wrong": layout}), "wrong") == ""
    assert isinstance(geometry.check(CATALOG.gpus[gpu], layout), Misfit)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {"wrong": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g10gb": 1}}]},
            "1g10gb",
        ),
        (
            {"wrong": [{"devices": "all", "mig-enabled": False, "mig-devices": {"1g.10gb": 1}}]},
            "mig-enabled",
        ),
        ({"wrong": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 0}}]}, ""),
        ({"other": [{"devices": "all", "mig-enabled": False}]}, "wrong"),
    ],
)
def test_the_validator_of_mig_parted_refuses_visible_faults(
    config: Mapping[str, Any], says: str, accepts: Callable[[Mapping[str, Any], str], str]
) -> None:
    """So that the tests above would notice if it judged nothing at all."""
    answer = accepts({"version": "v1", "mig-configs": config}, "wrong")
    assert answer
    assert says in answer
