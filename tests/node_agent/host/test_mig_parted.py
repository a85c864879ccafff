"""NVIDIA's own nvidia-mig-parted beside ours, on the same silicon: each sees what the other did and
refuses what it refuses.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.layout import parse
from slicewright.node_agent.host import partition, transaction
from slicewright.node_agent.host.placement import LayoutImpossible
from slicewright.node_agent.host.transaction import GpusInUse, RolledBack
from slicewright.node_agent.verdict.verify import verify_layout
from slicewright.rehearsal.cluster.node import launcher, root
from slicewright.rehearsal.cluster.node.launcher import Bind, LaunchSpec
from slicewright.rehearsal.cluster.node.machine import Machine
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.host.toolchain import Toolchain

pytestmark = [
    # Not for its length (seconds), but because the program may have to be built first.
    pytest.mark.rehearsal,
    pytest.mark.skipif(os.geteuid() != 0, reason="cutting GPUs is for root"),
    pytest.mark.skipif(launcher.why_not() is not None, reason=str(launcher.why_not())),
]
_NO_IOMMU = re.compile(r"[0-9/]+ [0-9:]+ WARNING: unable to detect IOMMU FD")
"""A warning of mig-parted 0.15 on stderr: a simulated node has no IOMMU."""
_CONFIG = Path("/etc/mig-layouts/config.yaml")
_DRIVER = Path("/usr/local/nvidia")


@dataclass
class Node:
    directory: Path
    files: root.NodeFiles
    tools: Toolchain
    on: Callable[[Path], None]

    def theirs(self, verb: str, devices: dict[str, int] | None = None) -> tuple[int, str]:
        """Runs nvidia-mig-parted VERB, with a layout for every GPU; `{}` MIG on and empty."""
        layouts = self.directory / "layouts"
        layouts.mkdir(exist_ok=True)
        wanted = [
            {"devices": "all", "mig-enabled": devices is not None, "mig-devices": devices or {}}
        ]
        (layouts / "config.yaml").write_text(
            json.dumps({"version": "v1", "mig-configs": {"wanted": wanted}})
        )
        log = self.directory / "log"
        log.unlink(missing_ok=True)
        chosen = ("-o", "json") if verb == "export" else ("-f", str(_CONFIG), "-c", "wanted")
        process = launcher.start(
            LaunchSpec(
                argv=(str(self.tools.mig_parted), verb, *chosen),
                env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": f"{_DRIVER}/lib64"},
                node_root=self.files.root,
                log=log,
                binds=(
                    Bind(source=layouts, target=_CONFIG.parent),
                    Bind(source=self.files.root / "usr", target=_DRIVER),
                ),
            )
        )
        code = process.wait(timeout=60)
        lines = log.read_text().splitlines(keepends=True)
        return code, "".join(line for line in lines if not _NO_IOMMU.match(line))

    def exported(self) -> list[dict[str, Any]]:
        code, output = self.theirs("export")
        assert code == 0, output
        current: list[dict[str, Any]] = json.loads(output)["mig-configs"]["current"]
        return current

    def ours(self, layout: str) -> None:
        self.on(self.files.silicon)
        with partition.opened() as silicon:
            wanted = parse([layout])
            planned = transaction.plan(
                silicon, lambda gpus: wanted.resolve({g.index: g.uuid for g in gpus})
            )
            transaction.execute(silicon, planned, lambda _: None)

    def judged(self, layout: str) -> str:
        from slicewright.node_agent.nvml import probe as nvml

        self.on(self.files.silicon)
        observation = nvml.probe()
        wanted = parse([layout])
        return verify_layout(
            wanted, wanted.resolve({g.index: g.uuid or "" for g in observation.gpus}), observation
        ).verdict

    def cut(self) -> list[dict[str, int]]:
        return [dict(Counter(gpu.profiles)) for gpu in state.load(self.files.silicon).gpus]


@pytest.fixture
def node(
    tmp_path: Path, toolchain: Toolchain, in_this_process: Callable[[Path], None]
) -> Callable[..., Node]:
    def make(model: str = "H100-80", count: int = 2) -> Node:
        machine = Machine(cloud="eks", gpu_model=model, gpu_count=count, driver_version="580.65.06")
        return Node(tmp_path, root.build(tmp_path, machine, toolchain), toolchain, in_this_process)

    return make


def _layout(devices: dict[str, int]) -> str:
    return "all:" + (",".join(f"{name}*{count}" for name, count in devices.items()) or "empty")


LAYOUTS: list[tuple[str, dict[str, int]]] = [
    ("H100-80", {"1g.10gb": 7}),
    ("H100-80", {"3g.40gb": 2}),
    ("H100-80", {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}),
    ("H100-80", {"1g.10gb+me": 1, "1g.20gb": 3}),
    ("H100-80", {"1c.3g.40gb": 3, "2c.4g.40gb": 2}),
    ("H100-80", {"7g.80gb": 1}),
    ("H100-80", {}),
    ("H200", {"1g.18gb": 2, "1g.35gb": 1, "3g.71gb": 1}),
    ("B200", {"1g.23gb": 1, "2g.45gb": 3}),
    ("RTX-PRO-6000", {"1g.24gb": 2, "2g.48gb": 1}),
    ("RTX-PRO-6000", {"1g.24gb-me": 3, "1g.24gb+me.all": 1}),
]


@pytest.mark.parametrize(("model", "devices"), LAYOUTS)
def test_mig_parted_exports_and_asserts_layouts_that_the_agent_applied(
    node: Any, model: str, devices: dict[str, int]
) -> None:
    host = node(model)
    host.ours(_layout(devices))
    assert host.exported() == [{"devices": "all", "mig-enabled": True, "mig-devices": devices}]
    assert host.theirs("assert", devices) == (0, "Selected MIG configuration currently applied\n")


@pytest.mark.parametrize(("model", "devices"), LAYOUTS)
def test_agent_verifies_layouts_that_mig_parted_applied(
    node: Any, model: str, devices: dict[str, int]
) -> None:
    host = node(model)
    assert host.judged(_layout(devices)) == "Mismatch"
    assert host.theirs("apply", devices)[0] == 0
    assert host.judged(_layout(devices)) == "Match"
    serial = state.load(host.files.silicon).serial
    host.ours(_layout(devices))
    assert state.load(host.files.silicon).serial == serial, (
        "ours cut again what theirs had cut as wanted"
    )


def test_agent_and_mig_parted_see_each_others_clearing(node: Any) -> None:
    host = node()
    host.ours("all:3g.40gb*2")
    assert host.theirs("apply")[0] == 0
    assert host.judged("all:off") == "Match"
    host.ours("all:3g.40gb*2")
    host.ours("all:off")
    assert host.exported() == [{"devices": "all", "mig-enabled": False, "mig-devices": {}}]


REFUSALS: list[tuple[str, dict[str, int], bool, str]] = [
    ("twice the only half", {"4g.40gb": 2}, True, ""),
    ("three halves", {"3g.40gb": 3}, True, ""),
    ("halves and one more", {"3g.40gb": 2, "1g.10gb": 1}, True, ""),
    ("all and one more", {"7g.80gb": 1, "1g.10gb": 1}, True, ""),
    ("two with media engines", {"1g.10gb+me": 2}, True, ""),
    ("another model's name", {"1g.5gb": 7}, False,
        "theirs ignores it, destroys all, and calls that success"),
    ("nobody's name", {"9g.5gb": 1}, False, "as above"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "devices", "theirs_refuses", "why"), REFUSALS, ids=[r[0] for r in REFUSALS]
)
def test_agent_and_mig_parted_refuse_the_same_layouts_with_listed_exceptions(
    node: Any, case: str, devices: dict[str, int], theirs_refuses: bool, why: str
) -> None:
    host = node()
    before = {"1g.10gb": 7}
    host.ours(_layout(before))
    with pytest.raises(LayoutImpossible):
        host.ours(_layout(devices))
    assert host.cut() == [before, before], "ours refuses before it touches anything"
    code, output = host.theirs("apply", devices)
    assert (code != 0) is theirs_refuses, output
    assert theirs_refuses != bool(why)
    assert host.cut()[0] == {}, "theirs has destroyed what was there"
    assert host.judged(_layout(devices)) == "Mismatch"
    assert host.theirs("assert", devices)[0] == 1


def test_a_gpu_in_use_is_refused_by_both(node: Any) -> None:
    host = node(count=1)
    host.ours("0:1g.10gb*7")
    instance = state.load(host.files.silicon).gpus[0].instances[0]
    state.run_process(host.files.silicon, state.Process(gpu=0, pid=4711, gi=instance.id, ci=0))
    with pytest.raises(GpusInUse):
        host.ours("0:3g.40gb*2")
    assert host.cut() == [{"1g.10gb": 7}]
    code, output = host.theirs("apply", {"3g.40gb": 2})
    assert (code, "ERROR_IN_USE" in output) == (1, True)


def test_mig_parted_leaves_pieces_if_the_driver_fails_half_way(node: Any) -> None:
    host = node(count=1)
    host.ours("0:1g.10gb*7")
    fault = state.Injection(call="nvmlDeviceCreateGpuInstanceWithPlacement", code=23, times=1)
    state.inject(host.files.silicon, fault)
    with pytest.raises(RolledBack):
        host.ours("0:3g.40gb*2")
    assert host.cut() == [{"1g.10gb": 7}]
    state.heal(host.files.silicon)
    state.inject(
        host.files.silicon, state.Injection(call="nvmlDeviceCreateGpuInstance", code=999, times=1)
    )
    assert host.theirs("apply", {"3g.40gb": 2})[0] == 1
    assert host.cut() != [{"1g.10gb": 7}]
