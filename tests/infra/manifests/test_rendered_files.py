"""Rendered files: NVIDIA's own parser accepts the layouts, and the chart has every key."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from string import ascii_letters, digits
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis.names import STARTUP_TAINT_KEY
from slicewright.infra import catalog, manifests, plan, stack_file
from slicewright.infra.plan import EksFleetPlan, PoolPlan, Taint
from slicewright.rehearsal.plugins.charts.gpu_operator import values as chart
from tests.properties import examples
from tests.repository_stacks import STACKS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def fleet() -> EksFleetPlan:
    made = plan.read_file(ROOT / "stacks" / "Pulumi.eks-a100.yaml")
    assert isinstance(made, EksFleetPlan)
    return made


@pytest.fixture
def all_keys() -> EksFleetPlan:
    made = plan.read_file(ROOT / "tests" / "infra" / "golden" / "all-keys.yaml")
    assert isinstance(made, EksFleetPlan)
    return made


@pytest.mark.toolchain
def test_nvidias_parser_accepts_every_layout(
    fleet: EksFleetPlan, check_config: Callable[[Any], None]
) -> None:
    """One name at a time is slow: of each number of instances on a GPU, one."""
    configs = manifests.mig_parted_config(fleet.pools)["mig-configs"]
    sample = {sum(es[0].get("mig-devices", {}).values()): name for name, es in configs.items()}
    assert set(sample) == set(range(8))
    chosen = {fleet.pools[0].offer.mig_config, *sample.values()}
    check_config({"version": "v1", "mig-configs": {name: configs[name] for name in chosen}})


def test_layouts_only_match_the_pools_own_gpu(fleet: EksFleetPlan) -> None:
    (entry,) = manifests.mig_parted_config(fleet.pools)["mig-configs"][
        fleet.pools[0].offer.mig_config
    ]
    assert entry == {
        "device-filter": ["0x20B010DE", "0x20B110DE", "0x20F110DE", "0x20F610DE"],
        "devices": "all",
        "mig-enabled": True,
        "mig-devices": {"1g.5gb": 7},
    }


def rendered(fleet: EksFleetPlan) -> dict[str, Any]:
    return manifests.operator_values(fleet, manifests.operator_files(fleet))


@pytest.mark.parametrize("stack", ["eks-a100", "all-keys"])
def test_the_chart_has_every_key(stack: str, all_keys: EksFleetPlan, fleet: EksFleetPlan) -> None:
    """The rehearsal's copy of the chart's values.yaml refuses others; the real Helm ignores them
    without a word.
    """
    assert chart.check(rendered(fleet if stack == "eks-a100" else all_keys)) == []


def test_s1_settings_are_the_ones_that_the_chart_obeys(fleet: EksFleetPlan) -> None:
    given = rendered(fleet)
    assert given["mig"] == {"strategy": "mixed"}  # S1-12
    assert given["devicePlugin"]["enabled"] is True  # S1-13
    assert given["migManager"]["enabled"] is True  # S1-15
    assert given["migManager"]["env"] == [
        {"name": "WITH_REBOOT", "value": "true"}
    ]  # S1-16, where the chart reads it
    assert given["migManager"]["config"] == {
        "name": manifests.operator_files(fleet).mig_layouts.name,
        "default": "all-disabled",
    }  # S1-17
    assert given["driver"]["enabled"] is False  # S1-11, corrected: the image has one
    assert given["toolkit"]["enabled"] is False


def test_a_mirror_has_the_image_of_every_operand_that_runs(all_keys: EksFleetPlan) -> None:
    """Where NVIDIA's registry cannot be reached, one image from it is one too many."""
    full = chart.merged(rendered(all_keys))
    for name, section in full.items():
        if isinstance(section, dict) and section.get("enabled", "repository" in section):
            if section.get("image") in NOT_RUN or "repository" not in section:
                continue
            assert section["repository"].startswith("registry.example.com/mirror/nvidia"), name
    nfd = full["node-feature-discovery"]
    assert nfd["image"]["repository"] == "registry.example.com/mirror/nfd/node-feature-discovery"
    assert nfd["imagePullSecrets"] == [{"name": "mirror"}]
    assert full["migManager"]["imagePullSecrets"] == ["mirror"]


NOT_RUN = {
    # Sandbox workloads and the DRA driver are off as a whole.
    "vgpu-device-manager",
    "k8s-driver-manager",
    "kubevirt-gpu-device-plugin",
    "nvidia-sandbox-device-plugin",
    "k8s-cc-manager",
    "dra-driver-nvidia-gpu",
}


def test_chosen_metrics_and_host_services_are_files_with_the_hash_of_their_content(
    all_keys: EksFleetPlan, fleet: EksFleetPlan
) -> None:
    files, given = manifests.operator_files(all_keys), rendered(all_keys)
    assert files.dcgm_metrics is not None
    assert files.gpu_clients is not None
    assert files.dcgm_metrics.data["dcgm-metrics.csv"].splitlines()[1:] == [
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, "
        "Share of time in which a GPU or partition computed, 0 to 1.",
        "DCGM_FI_DEV_FB_USED, gauge, Used memory in MiB.",
    ]
    assert yaml.safe_load(files.gpu_clients.data["clients.yaml"]) == {
        "version": "v1",
        "systemd-services": ["nvidia-persistenced.service"],
    }
    assert given["dcgmExporter"]["config"] == {"name": files.dcgm_metrics.name}
    assert given["migManager"]["gpuClientsConfig"] == {"name": files.gpu_clients.name}
    other = dataclasses.replace(
        all_keys,
        operator=all_keys.operator.model_copy(
            update={"mig_manager": stack_file.MigManager(host_services=("dcgm.service",))}
        ),
    )
    renamed = manifests.operator_files(other).gpu_clients
    assert renamed is not None
    assert renamed.name != files.gpu_clients.name
    assert {f.name.rpartition("-")[0] for f in manifests.operator_files(fleet)} == {"mig-layouts"}


def test_the_metrics_file_can_be_read_by_the_exporter() -> None:
    """Three fields a line, so none of them may have a comma of its own; the help may."""
    for field in catalog.load().dcgm_fields.values():
        line = manifests.metrics_csv((field.name,)).splitlines()[1]
        name, kind, meaning = line.split(", ", 2)
        assert (name, kind) == (field.name, field.kind)
        assert meaning == f"{field.meaning}."


@pytest.mark.parametrize(
    ("written", "chart_and_repository"),
    [
        ({}, ("gpu-operator", "https://helm.ngc.nvidia.com/nvidia")),
        (
            {"repository": "oci://registry.example.com/charts"},
            ("oci://registry.example.com/charts/gpu-operator", None),
        ),
        ({"chart_path": "charts/x.tgz"}, ("charts/x.tgz", None)),
    ],
)
def test_the_operator_chart_comes_from_a_repository_a_registry_or_a_file(
    written: dict[str, Any], chart_and_repository: tuple[str, str | None]
) -> None:
    assert manifests.chart_of(stack_file.GpuOperator(**written)) == chart_and_repository


def test_operands_tolerate_the_taints_of_the_pools_nodes(fleet: EksFleetPlan) -> None:
    given = rendered(fleet)
    for tolerations in (
        given["daemonsets"]["tolerations"],
        given["node-feature-discovery"]["worker"]["tolerations"],
    ):
        for taint in fleet.pools[0].taints:
            assert any(
                t["key"] == taint.key
                and t["effect"] == taint.effect
                and (t["operator"] == "Exists" or t["value"] == taint.value)
                for t in tolerations
            ), taint


def test_the_same_plan_gives_the_same_text(fleet: EksFleetPlan) -> None:
    assert manifests.as_yaml(manifests.mig_parted_config(fleet.pools)) == manifests.as_yaml(
        manifests.mig_parted_config(tuple(fleet.pools))
    )


WORDS = st.text(f"{ascii_letters}{digits}-._+", min_size=1, max_size=140) | st.sampled_from(
    ("all", "0x20B010DE", "1g.5gb+me", "1e3", "0x1", "0o7", "null", "true", "no", ".inf", "-", "1.")
)


@given(
    st.dictionaries(
        WORDS,
        st.recursive(
            st.booleans() | st.integers() | WORDS,
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
            max_leaves=12,
        ),
        max_size=5,
    )
)
@settings(max_examples=examples(60))
def test_words_are_written_alike_with_and_without_libyaml(data: dict[str, Any]) -> None:
    assert manifests.words_as_flow_yaml(data) == manifests.as_flow_yaml(data)


@pytest.mark.parametrize("stack", STACKS, ids=str)
def test_layouts_are_written_alike_with_and_without_libyaml(stack: Path) -> None:
    config = manifests.mig_parted_config(plan.read_file(stack).pools)
    assert manifests.words_as_flow_yaml(config) == manifests.as_flow_yaml(config)
    assert words_only(config)


def words_only(data: Any) -> bool:
    match data:
        case dict():
            return all(words_only(k) and words_only(v) for k, v in data.items())
        case list():
            return all(map(words_only, data))
        case str():
            return re.fullmatch("[-a-zA-Z0-9._+]+", data) is not None
    return True


def test_a_kubeconfig_has_no_secret_and_runs_the_clouds_own_command() -> None:
    config = manifests.kubeconfig(
        cluster="c",
        server="https://h",
        ca_data="Q0E=",
        plugin=manifests.CredentialPlugin(command="aws", arguments=("eks", "get-token")),
    )
    (user,) = config["users"]
    assert set(user["user"]) == {"exec"}
    assert user["user"]["exec"]["args"] == ["eks", "get-token"]


def test_a_pod_tolerates_the_pools_taints_but_not_the_startup_taint(fleet: EksFleetPlan) -> None:
    mine = Taint(key="team", value="a", effect="NoExecute")
    pool = dataclasses.replace(fleet.pools[0], taints=(mine, *fleet.pools[0].taints))
    request = manifests.pod_request(pool, ())
    assert STARTUP_TAINT_KEY in {taint.key for taint in pool.taints}
    assert request["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "a", "effect": "NoExecute"},
    ]


def _pool_shared_on_gke(mode: str) -> PoolPlan:
    raw = {
        "cloud": "gke",
        "cluster": {"name": "dev", "location": "us-central1-a"},
        "node_pools": [
            {
                "name": "l4",
                "machine_type": "g2-standard-4",
                "nodes": {"count": 1},
                "sharing": {"mode": mode, "replicas": 4},
            }
        ],
    }
    (pool,) = plan.read(json.dumps(raw), stack_file.Source("test", raw)).pools
    return pool


@pytest.mark.parametrize(("mode", "needed"), [("mps", True), ("time-slicing", None)])
def test_a_pod_on_gke_reaches_the_mps_daemon_by_its_nodes_ipc(
    mode: str, needed: bool | None
) -> None:
    assert manifests.pod_request(_pool_shared_on_gke(mode), ()).get("hostIPC") is needed


def _by_mounts(cloud: str, **operator: Any) -> dict[str, Any]:
    """The chart's values with lists by mount."""
    pools: dict[str, Any] = {
        "byo": {
            "cluster": {"name": "c", "context": "c"},
            "node_pools": [
                {"name": "a", "gpu": {"model": "A100-40", "count": 1}, "nodes": {"count": 1}}
            ],
        },
        "gke": {
            "cluster": {"name": "c", "location": "us-central1-a"},
            "node_pools": [
                {
                    "name": "a",
                    "machine_type": "a2-highgpu-1g",
                    "nodes": {"count": 1},
                    "partition": {"mode": "operator", "config": "all-1g.5gb"},
                }
            ],
        },
    }
    raw = {
        "cloud": cloud,
        **pools[cloud],
        "gpu_operator": {"toolkit": {"enabled": True}, "device_list": "volume-mounts", **operator},
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    made = manifests.operator_values(fleet, manifests.operator_files(fleet))
    assert chart.check(made) == []
    return made


OBEYS_MOUNTS = [
    {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"},
    {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS", "value": "true"},
]


def test_device_list_by_mounts_with_cdi_changes_only_the_toolkit() -> None:
    """The plugin's mounts name partitions, which the operator's CDI specification does not have."""
    made = _by_mounts("byo")
    assert made["toolkit"] == {"enabled": True, "env": OBEYS_MOUNTS}
    assert "env" not in made["devicePlugin"]
    without = _by_mounts("byo", device_list="envvar")
    assert made == {**without, "toolkit": made["toolkit"]}


def test_device_list_by_mounts_without_cdi_makes_the_plugin_allocate_by_mounts() -> None:
    made = _by_mounts("byo", cdi=False)
    assert made["toolkit"] == {"enabled": True, "env": OBEYS_MOUNTS}
    assert made["devicePlugin"]["env"] == [
        {"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}
    ]


def test_device_list_by_mounts_keeps_the_toolkit_settings_for_gke() -> None:
    made = _by_mounts("gke")["toolkit"]
    assert made["env"] == [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}, *OBEYS_MOUNTS]
