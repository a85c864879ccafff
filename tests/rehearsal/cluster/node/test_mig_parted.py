"""NVIDIA's nvidia-mig-parted, unchanged, with the fake NVML: apply, assert and export."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.node.launcher import Bind
from slicewright.rehearsal.cluster.silicon import state

_CONFIG = Path("/etc/mig-layouts/config.yaml")


def _layouts(node: Any, **layouts: list[dict[str, Any]]) -> Bind:
    directory = node.directory / "layouts"
    directory.mkdir(exist_ok=True)
    (directory / "config.yaml").write_text(json.dumps({"version": "v1", "mig-configs": layouts}))
    return Bind(source=directory, target=_CONFIG.parent)


def _all(enabled: bool = True, **devices: int) -> list[dict[str, Any]]:
    return [
        {
            "devices": "all",
            "mig-enabled": enabled,
            "mig-devices": {name.strip("_"): n for name, n in devices.items()},
        }
    ]


def _mig_parted(node: Any, bind: Bind, command: str, layout: str) -> tuple[int, str]:
    code, output = node.run(
        node.toolchain.mig_parted, command, "-f", _CONFIG, "-c", layout, binds=(bind,)
    )
    return code, output


def _export(node: Any) -> list[dict[str, Any]]:
    code, output = node.run(node.toolchain.mig_parted, "export", "-o", "json")
    assert code == 0, output
    exported: list[dict[str, Any]] = json.loads(output)["mig-configs"]["current"]
    return exported


def _profiles(node: Any) -> list[dict[str, int]]:
    return [dict(Counter(gpu.profiles)) for gpu in state.load(node.files.silicon).gpus]


def test_a_node_without_mig_exports_mig_off(make_node: Any) -> None:
    assert _export(make_node()) == [{"devices": "all", "mig-enabled": False, "mig-devices": {}}]


@pytest.mark.parametrize(
    ("model", "devices"),
    [
        ("H100-80", {"1g.10gb": 7}),
        ("H100-80", {"3g.40gb": 2}),
        ("H100-80", {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}),
        ("H100-80", {"1g.10gb+me": 1, "1g.20gb": 3}),
        ("H100-80", {"1c.3g.40gb": 3, "2c.4g.40gb": 2}),
        ("H100-80", {"7g.80gb": 1}),
        ("H200", {"1g.18gb": 2, "1g.35gb": 1, "3g.71gb": 1}),
        ("B200", {"1g.23gb": 1, "2g.45gb": 3}),
        ("RTX-PRO-6000", {"1g.24gb": 2, "2g.48gb": 1}),
        ("RTX-PRO-6000", {"1g.24gb-me": 3, "1g.24gb+me.all": 1}),
    ],
)
def test_an_applied_layout_exists_passes_assert_and_is_exported(
    make_node: Any, model: str, devices: dict[str, int]
) -> None:
    node = make_node(model, 2, "580.65.06")
    bind = _layouts(node, wanted=[{"devices": "all", "mig-enabled": True, "mig-devices": devices}])
    assert _mig_parted(node, bind, "assert", "wanted")[0] == 1
    assert _mig_parted(node, bind, "apply", "wanted") == (
        0,
        "MIG configuration applied successfully\n",
    )
    assert _profiles(node) == [devices, devices]
    assert _mig_parted(node, bind, "assert", "wanted") == (
        0,
        "Selected MIG configuration currently applied\n",
    )
    assert _export(node) == [{"devices": "all", "mig-enabled": True, "mig-devices": devices}]


def test_eight_gpus_of_seven_slices_are_56_devices_and_a_new_layout_has_new_uuids(
    make_node: Any,
) -> None:
    node = make_node()
    bind = _layouts(node, seven=_all(**{"1g.10gb": 7}), halves=_all(**{"3g.40gb": 2}))

    def uuids() -> set[str]:
        gpus = state.load(node.files.silicon).gpus
        return {ci.uuid for gpu in gpus for gi in gpu.instances for ci in gi.compute_instances}

    assert _mig_parted(node, bind, "apply", "seven")[0] == 0
    first = uuids()
    assert len(first) == 56
    assert _mig_parted(node, bind, "apply", "seven")[0] == 0
    assert uuids() == first
    assert _mig_parted(node, bind, "apply", "halves")[0] == 0
    assert _mig_parted(node, bind, "apply", "seven")[0] == 0
    assert len(uuids()) == 56
    assert not uuids() & first


def test_an_impossible_layout_empties_the_first_gpu_and_leaves_the_others(
    make_node: Any,
) -> None:
    node = make_node(count=2)
    bind = _layouts(node, seven=_all(**{"1g.10gb": 7}), two_of_four=_all(**{"4g.40gb": 2}))
    _mig_parted(node, bind, "apply", "seven")
    code, output = _mig_parted(node, bind, "apply", "two_of_four")
    assert code == 1
    assert "all orderings failed" in output
    assert _profiles(node) == [{}, {"1g.10gb": 7}]


def test_applying_another_models_profile_succeeds_wrongly_and_assert_fails(make_node: Any) -> None:
    node = make_node(count=2)
    bind = _layouts(node, wrong=_all(**{"1g.5gb": 7}))
    assert _mig_parted(node, bind, "apply", "wrong")[0] == 0
    assert _profiles(node) == [{}, {}]
    assert _mig_parted(node, bind, "assert", "wrong")[0] == 1


def test_ampere_changes_mig_mode_only_with_a_reboot(make_node: Any) -> None:
    node = make_node("A100-40", 2)
    bind = _layouts(node, seven=_all(**{"1g.5gb": 7}))
    code, output = _mig_parted(node, bind, "apply", "seven")
    # The pending mode makes mig-parted ask for a reset by nvidia-smi, which these machines do not
    # have.
    assert code == 1, output
    assert [(g.mig, g.mig_pending) for g in state.load(node.files.silicon).gpus] == [
        (False, True)
    ] * 2
    state.reboot(node.files.silicon)
    assert _mig_parted(node, bind, "apply", "seven")[0] == 0
    assert _profiles(node) == [{"1g.5gb": 7}] * 2
    assert _export(node) == [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}]


def test_a_user_without_privilege_cannot_apply(make_node: Any) -> None:
    node = make_node(count=1)
    bind = _layouts(node, seven=_all(**{"1g.10gb": 7}))
    code, output = node.run(
        node.toolchain.mig_parted, "apply", "-f", _CONFIG, "-c", "seven", binds=(bind,), uid=65532
    )
    assert code == 1
    assert "ERROR_NO_PERMISSION" in output
    assert not state.load(node.files.silicon).gpus[0].mig


def test_a_gpu_in_use_is_not_repartitioned(make_node: Any) -> None:
    node = make_node(count=1)
    bind = _layouts(node, seven=_all(**{"1g.10gb": 7}), halves=_all(**{"3g.40gb": 2}))
    _mig_parted(node, bind, "apply", "seven")
    gi = state.load(node.files.silicon).gpus[0].instances[0]
    state.run_process(node.files.silicon, state.Process(gpu=0, pid=4711, gi=gi.id, ci=0))
    code, output = _mig_parted(node, bind, "apply", "halves")
    assert code == 1
    assert "ERROR_IN_USE" in output


def test_without_the_library_it_fails_with_a_message(make_node: Any) -> None:
    node = make_node(count=1)
    code, output = node.run(node.toolchain.mig_parted, "export", sees_gpus=False)
    assert code == 1
    assert "ERROR_LIBRARY_NOT_FOUND" in output


def test_a_driver_that_is_not_loaded_is_named(make_node: Any) -> None:
    node = make_node(count=1)
    state.inject(node.files.silicon, state.Injection(call="nvmlInit", code=9))
    code, output = node.run(node.toolchain.mig_parted, "export")
    assert code == 1
    assert "Driver Not Loaded" in output
