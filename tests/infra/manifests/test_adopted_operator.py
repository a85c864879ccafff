"""A GPU operator that exists: what it is given, which of its settings are checked, and what is
said about a wrong one.
"""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest
import yaml

from slicewright.apis.names import STARTUP_TAINT_KEY
from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.plan import ExistingFleetPlan
from tests.recorder import Made, recorded

FLEET = """\
cloud: byo
cluster: {name: lab, context: lab}
gpu_operator: {existing: true, namespace: nvidia}
node_pools:
- name: a100
  gpu: {model: A100-40, count: 1}
  nodes: {count: 1}
  partition: {mode: operator, config: all-balanced}
  sharing: {mode: time-slicing, replicas: {mig-1g.5gb: 4}}
"""


def planned(text: str = FLEET) -> ExistingFleetPlan:
    fleet = plan.read(
        json.dumps(yaml.safe_load(text)), stack_file.Source("test", yaml.safe_load(text))
    )
    assert isinstance(fleet, ExistingFleetPlan)
    return fleet


def fitting(fleet: ExistingFleetPlan) -> dict[str, Any]:
    """The spec of a ClusterPolicy that serves the fleet."""
    files = manifests.operator_files(fleet)
    assert files.plugin_configs is not None
    return {
        "mig": {"strategy": "mixed"},
        "operator": {},
        "daemonsets": {"tolerations": [{"operator": "Exists"}]},
        "devicePlugin": {
            "config": {"name": files.plugin_configs.name, "default": manifests.NOT_SHARED}
        },
        "migManager": {
            "enabled": True,
            "config": {"name": files.mig_layouts.name},
            "env": [{"name": "WITH_REBOOT", "value": "true"}],
        },
    }


def merged(into: Any, patch: Any) -> Any:
    """A JSON merge patch, applied. Source: RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    found = dict(into) if isinstance(into, dict) else {}
    for key, value in patch.items():
        found[key] = merged(found.get(key), value)
    return found


def wrong(policy: Mapping[str, Any], fleet: ExistingFleetPlan) -> set[str]:
    return {m.field for m in manifests.mismatches(policy, fleet, manifests.operator_files(fleet))}


def test_cluster_policy_that_fits_the_pools_is_accepted() -> None:
    fleet = planned()
    assert wrong(fitting(fleet), fleet) == set()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"mig": {"strategy": "single"}}, "mig.strategy"),
        ({"mig": None}, "mig.strategy"),
        ({"operator": {"runtimeClass": "other"}}, "operator.runtimeClass"),
        ({"devicePlugin": {"enabled": False}}, "devicePlugin.enabled"),
        ({"devicePlugin": {"config": {"name": "theirs"}}}, "devicePlugin.config.name"),
        ({"devicePlugin": {"config": {"default": ""}}}, "devicePlugin.config.default"),
        ({"gfd": {"enabled": False}}, "gfd.enabled"),
        ({"migManager": {"enabled": False}}, "migManager.enabled"),
        (
            {"migManager": {"config": {"name": "theirs"}}},
            "migManager.config.name",
        ),
        ({"migManager": {"config": None}}, "migManager.config.name"),
        ({"migManager": {"env": None}}, "migManager.env"),
        ({"migManager": {"env": [{"name": "WITH_REBOOT", "value": "false"}]}}, "migManager.env"),
        ({"daemonsets": {"tolerations": []}}, "daemonsets.tolerations"),
        ({"daemonsets": None}, "daemonsets.tolerations"),
    ],
)
def test_each_required_setting_of_the_operator_is_checked(
    change: dict[str, Any], field: str
) -> None:
    fleet = planned()
    assert wrong(merged(fitting(fleet), change), fleet) == {field}


@pytest.mark.parametrize(
    ("was", "other"),
    [
        ("namespace: nvidia", "mig_manager: {with_reboot: false}"),
        ("model: A100-40", "model: H100-80"),
    ],
    ids=["as the stack file says", "the mode changes at once"],
)
def test_reboots_need_no_permission_if_no_reboot_is_needed(was: str, other: str) -> None:
    without_sharing = FLEET[: FLEET.index("  sharing:")]
    fleet = planned(without_sharing.replace(was, other))
    assert "migManager.env" not in wrong({}, fleet)
    assert "migManager.env" in wrong({}, planned(without_sharing))


def test_without_layouts_and_sharing_no_config_name_is_required() -> None:
    fleet = planned(
        "cloud: byo\ncluster: {name: c, context: c}\ngpu_operator: {existing: true}\n"
        "node_pools: [{name: t4, gpu: {model: T4, count: 1}, nodes: {count: 1}}]\n"
    )
    policy = {"mig": {"strategy": "mixed"}, "daemonsets": {"tolerations": [{"operator": "Exists"}]}}
    assert wrong(policy, fleet) == set()


@pytest.mark.parametrize(
    "tolerations",
    [
        [
            {"key": STARTUP_TAINT_KEY, "operator": "Exists"},
            {"key": "nvidia.com/gpu", "operator": "Exists"},
        ],
        [
            {"key": STARTUP_TAINT_KEY, "value": "unverified", "effect": "NoSchedule"},
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        ],
    ],
)
def test_wider_toleration_is_accepted(tolerations: list[dict[str, str]]) -> None:
    fleet = planned()
    policy = merged(fitting(fleet), {"daemonsets": {"tolerations": tolerations}})
    assert wrong(policy, fleet) == set()


@pytest.mark.parametrize(
    "startup",
    [
        {"key": STARTUP_TAINT_KEY, "operator": "Exists", "effect": "NoExecute"},
        {"key": STARTUP_TAINT_KEY, "operator": "Equal", "value": "other"},
        {"key": "other", "operator": "Exists"},
    ],
)
def test_narrower_toleration_is_refused(startup: dict[str, str]) -> None:
    fleet = planned()
    gpu = {"key": "nvidia.com/gpu", "operator": "Exists"}
    policy = merged(fitting(fleet), {"daemonsets": {"tolerations": [gpu, startup]}})
    (found,) = manifests.mismatches(policy, fleet, manifests.operator_files(fleet))
    assert [one["key"] for one in found.required] == [STARTUP_TAINT_KEY]
    assert found.replacement == [gpu, startup, *found.required], "what is there stays"


def test_message_names_each_field_and_its_command_fixes_them_all() -> None:
    fleet = planned()
    files = manifests.operator_files(fleet)
    policy = {
        "mig": {"strategy": "single"},
        "daemonsets": {"tolerations": [{"key": "mine", "operator": "Exists"}]},
        "migManager": {
            "config": {"name": "", "default": "all-disabled"},
            "env": [{"name": "WITH_REBOOT", "value": "0"}, {"name": "MINE", "value": "1"}],
        },
    }
    found = manifests.mismatches(policy, fleet, files)
    said = manifests.describe_mismatches("cluster-policy", found)
    assert "spec.mig.strategy: wanted mixed, found single" in said
    assert f"spec.migManager.config.name: wanted {files.mig_layouts.name}, found nothing" in said
    assert "missing among the 1 that are set" in said
    command = shlex.split(said.splitlines()[-1])
    assert command[:6] == [
        "kubectl", "patch", "clusterpolicies.nvidia.com", "cluster-policy", "--type", "merge"
    ]  # fmt: skip
    assert command[6] == "-p"
    mended = merged(policy, json.loads(command[7])["spec"])
    assert wrong(mended, fleet) == set()
    assert mended["daemonsets"]["tolerations"][0] == {"key": "mine", "operator": "Exists"}
    assert mended["migManager"]["config"]["default"] == "all-disabled"
    assert mended["migManager"]["env"] == [
        {"name": "MINE", "value": "1"},
        {"name": "WITH_REBOOT", "value": "true"},
    ]


def run(policy: Mapping[str, Any] | None, *, preview: bool = False) -> list[Made]:
    fleet = planned()
    return recorded(fleet, "adopted", cluster_policy=policy, preview=preview)


def kinds(made: list[Made]) -> set[str]:
    return {m.type.rpartition(":")[2] for m in made if not m.read}


def test_only_config_maps_are_created_for_an_adopted_operator(zipapps: None) -> None:
    made = run(fitting(planned()))
    assert "Release" not in kinds(made)
    namespaces = {m.inputs["metadata"]["name"] for m in made if m.type.endswith(":Namespace")}
    assert namespaces == {"slicewright-system"}
    ours = {
        m.inputs["metadata"]["name"].rpartition("-")[0]: m.inputs["metadata"]["namespace"]
        for m in made
        if m.type.endswith(":ConfigMap") and m.name.startswith("gpu-operator-")
    }
    assert ours == {"mig-layouts": "nvidia", "plugin-configs": "nvidia"}
    (read,) = (m for m in made if m.type.endswith(":ClusterPolicy"))
    assert read.read == "cluster-policy", "read, never made or changed"
    assert "GPUPool" in kinds(made)


def test_up_fails_before_any_pool_if_a_setting_of_the_operator_is_wrong(zipapps: None) -> None:
    policy = copy.deepcopy(fitting(planned()))
    policy["mig"]["strategy"] = "single"
    with pytest.raises(pulumi.RunError, match=r"spec\.mig\.strategy: wanted mixed"):
        run(policy)


def test_preview_warns_of_wrong_operator_settings_and_continues(
    zipapps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: said.append(text))
    assert "GPUPool" in kinds(run({}, preview=True))
    assert [text for text in said if "spec.migManager.config.name" in text]


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        ("existing: true, driver: {enabled: true}", "gpu_operator.driver: has no effect"),
        ("existing: true, release: mine", "gpu_operator.release: has no effect"),
        (
            "existing: true, mig_manager: {version: v0.14.0}",
            "gpu_operator.mig_manager.version: has no effect",
        ),
        ("cluster_policy: mine", "gpu_operator.cluster_policy: is not used"),
    ],
)
def test_settings_without_effect_are_refused(broken: Any, operator: str, said: str) -> None:
    assert said in broken(FLEET.replace("existing: true, namespace: nvidia", operator))


def test_existing_operator_needs_an_existing_cluster(broken: Any) -> None:
    said = broken(
        "cloud: eks\ncluster: {name: c, region: us-east-1}\ngpu_operator: {existing: true}\n"
        "node_pools: [{name: a, machine_type: g4dn.xlarge, nodes: {count: 1}}]\n"
    )
    assert "gpu_operator.existing: a cluster that is created here has no operator yet" in said


NO_VARIABLE = {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"}
MOUNTS = {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS", "value": "true"}
HARDENED = {"toolkit": {"env": [{"name": "MINE", "value": "1"}, NO_VARIABLE, MOUNTS]}}
BY_MOUNTS = FLEET.replace("namespace: nvidia", "namespace: nvidia, device_list: volume-mounts")


def _strategy(value: str) -> dict[str, Any]:
    return {"devicePlugin": {"env": [{"name": "DEVICE_LIST_STRATEGY", "value": value}]}}


def test_runtime_that_ignores_the_variable_needs_device_list() -> None:
    """Else no agent would see a GPU, and no node would be verified."""
    fleet = planned()
    policy = merged(fitting(fleet), HARDENED)
    (found,) = manifests.mismatches(policy, fleet, manifests.operator_files(fleet))
    assert found.field == "toolkit.env"
    assert found.current == [NO_VARIABLE]
    assert found.replacement == [
        HARDENED["toolkit"]["env"][0],
        MOUNTS,
        {**NO_VARIABLE, "value": "true"},
    ]
    message = manifests.describe_mismatches("cluster-policy", [found])
    assert "write gpu_operator: {device_list: volume-mounts} in the stack file" in message
    assert wrong(policy, planned(BY_MOUNTS)) == set()
    off = merged(policy, {"toolkit": {"enabled": False}})
    assert wrong(off, fleet) == set(), "the nodes' own toolkit does not read it"


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"toolkit": {"env": None}}, {"toolkit.env"}),
        ({"toolkit": {"env": [NO_VARIABLE]}}, {"toolkit.env"}),
        ({"toolkit": {"env": [MOUNTS]}}, {"toolkit.env"}),
        ({"toolkit": {"enabled": False}}, {"toolkit.enabled"}),
        ({"cdi": {"enabled": False}}, {"devicePlugin.env"}),
        (_strategy("envvar"), {"devicePlugin.env"}),
        (_strategy("volume-mounts"), {"devicePlugin.env"}),
        (_strategy("cdi-cri,cdi-annotations,volume-mounts"), set()),
        ({"cdi": {"enabled": False}, **_strategy("volume-mounts")}, set()),
        ({"cdi": {"enabled": True}}, set()),
    ],
    ids=str,
)
def test_device_list_by_mounts_needs_matching_toolkit_and_plugin_settings(
    change: dict[str, Any], fields: set[str]
) -> None:
    fleet = planned(BY_MOUNTS)
    policy = merged(merged(fitting(fleet), HARDENED), change)
    assert wrong(policy, fleet) == fields
    found = manifests.mismatches(policy, fleet, manifests.operator_files(fleet))
    if not found:
        return
    message = manifests.describe_mismatches("cluster-policy", found)
    assert "device_list" not in message
    mended = merged(policy, json.loads(shlex.split(message.splitlines()[-1])[7])["spec"])
    assert wrong(mended, fleet) == set()


def test_beside_an_engine_for_fractions_the_operators_device_plugin_must_be_off() -> None:
    fleet = planned("""\
cloud: byo
cluster: {name: lab, context: lab}
gpu_operator: {existing: true, namespace: nvidia}
fractional: {provider: volcano}
node_pools:
- {name: t4, gpu: {model: T4, count: 4}, nodes: {count: 1}, sharing: fractional}
""")
    files = manifests.operator_files(fleet)
    policy = {"mig": {"strategy": "mixed"}, "daemonsets": {"tolerations": [{"operator": "Exists"}]}}
    (wrong,) = manifests.mismatches(policy, fleet, files)
    assert (wrong.field, wrong.required) == ("devicePlugin.enabled", False)
    assert not manifests.mismatches(policy | {"devicePlugin": {"enabled": False}}, fleet, files)


HANDLER = {"name": "CONTAINERD_RUNTIME_CLASS", "value": "gpu"}


def strategy(value: str) -> dict[str, str]:
    return {"name": "MIG_STRATEGY", "value": value}


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"cdi": {"nriPluginEnabled": True}}, "cdi.nriPluginEnabled"),
        (
            {"sandboxWorkloads": {"enabled": True, "defaultWorkload": "vm-passthrough"}},
            "sandboxWorkloads.defaultWorkload",
        ),
        ({"toolkit": {"env": [HANDLER]}}, "toolkit.env"),
        (
            {"devicePlugin": {"env": [{"name": "MIG_STRATEGY", "value": "none"}]}},
            "devicePlugin.env",
        ),
        ({"gfd": {"env": [strategy("single")]}}, "gfd.env"),
        ({"gfd": {"enabled": False}}, "gfd.enabled"),
        ({"operator": {"runtimeClass": "gpu"}}, "operator.runtimeClass"),
    ],
)
def test_settings_that_keep_agents_or_operands_away_are_named(
    patch: dict[str, Any], field: str
) -> None:
    fleet = planned()
    policy = merged(fitting(fleet), patch)
    assert wrong(policy, fleet) == {field}
    found = manifests.mismatches(policy, fleet, manifests.operator_files(fleet))
    command = shlex.split(manifests.patch_command("cluster-policy", found))
    mended = merged({"spec": policy}, json.loads(command[-1]))["spec"]
    assert wrong(mended, fleet) == set()


@pytest.mark.parametrize(
    "patch",
    [
        {"sandboxWorkloads": {"enabled": True, "defaultWorkload": "container"}},
        {"sandboxWorkloads": {"enabled": False, "defaultWorkload": "vm-passthrough"}},
        {"toolkit": {"env": [{**HANDLER, "value": "nvidia"}]}},
        {"dcgmExporter": {"enabled": False}},
    ],
)
def test_settings_that_exclude_no_pod_are_accepted(patch: dict[str, Any]) -> None:
    fleet = planned()
    assert wrong(merged(fitting(fleet), patch), fleet) == set()


def test_one_patch_mends_all_variables_of_an_operand() -> None:
    fleet = planned()
    hardened = {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"}
    policy = merged(fitting(fleet), {"toolkit": {"env": [hardened, HANDLER]}})
    found = manifests.mismatches(policy, fleet, manifests.operator_files(fleet))
    command = shlex.split(manifests.patch_command("cluster-policy", found))
    mended = merged({"spec": policy}, json.loads(command[-1]))["spec"]
    assert wrong(mended, fleet) == set()
