"""The program in the user data that partitions GPUs, against a stand-in of nvidia-smi."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slicewright.infra import manifests
from slicewright.infra.catalog import load
from slicewright.infra.plan.partition.boot import boot_layout

NVIDIA_SMI = """\
#!/usr/bin/env python3
import json, sys
from pathlib import Path

file = Path(__file__).with_name("gpus.json")
gpus = json.loads(file.read_text())
arguments = sys.argv[1:]
code = 0
match arguments:
    case ["-L"]:
        for i, gpu in enumerate(gpus):
            print(f"GPU {i}: NVIDIA (UUID: GPU-{i})")
            for n, profile in enumerate(gpu["made"]):
                print(f"  MIG {profile:<12} Device {n:>2}: (UUID: MIG-{i}-{n})")
    case ["--query-gpu=pci.device_id", _]:
        for gpu in gpus:
            print(gpu["id"])
    case ["--query-gpu=index,mig.mode.current,mig.mode.pending", _]:
        for i, gpu in enumerate(gpus):
            print(f"{i}, {gpu['mode']}, {gpu['pending']}")
    case ["-i", i, "-mig", on]:
        gpu, mode = gpus[int(i)], "Enabled" if on == "1" else "Disabled"
        if gpu["busy"]:
            gpu["busy"] -= 1
            print("Warning: MIG mode is in pending enable state: In use by another client")
        else:
            gpu["pending"] = mode
            if not gpu["ampere"]:
                gpu["mode"] = mode
        print("All done.")
    case ["mig", "-i", i, "-dci"]:
        pass
    case ["mig", "-i", i, "-dgi"]:
        code = 0 if gpus[int(i)]["made"] else 6
        gpus[int(i)]["made"] = []
    case ["mig", "-i", i, "-cgi", profiles, "-C"]:
        gpu = gpus[int(i)]
        if gpu["mode"] != "Enabled" or gpu["refuses"]:
            code = 3
        else:
            gpu["made"] = profiles.split(",")
    case _:
        sys.exit(f"unknown: {arguments}")
file.write_text(json.dumps(gpus))
sys.exit(code)
"""


@dataclass
class Machine:
    """A machine's directory, with its GPUs and the programs that the boot program calls."""

    directory: Path
    gpus: list[dict[str, object]] = field(default_factory=list)

    def boot(self, layouts: Sequence[dict[str, int]], model: str = "H100-80") -> str:
        """Runs the program. Returns its output."""
        layout = boot_layout(load().gpus[model], layouts)
        text = manifests.boot_program(layout)
        text = text.replace("/run/slicewright", str(self.directory / "run"))
        text = text.replace("/var/lib/slicewright", str(self.directory / "lib"))
        text = text.replace("sleep 10", "sleep 0").replace("sleep 60", "exit 9")
        environment = {**os.environ, "PATH": f"{self.directory}:{os.environ['PATH']}"}
        ran = subprocess.run(
            ["bash", "-c", text], env=environment, capture_output=True, text=True, check=False
        )
        self.gpus = json.loads((self.directory / "gpus.json").read_text())
        self.code = ran.returncode
        return ran.stdout + ran.stderr

    @property
    def result(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.directory / "run" / "layout.json").read_text())
        return found

    @property
    def calls(self) -> list[str]:
        file = self.directory / "systemctl.log"
        return file.read_text().splitlines() if file.exists() else []

    def restart(self) -> None:
        """What a reboot does to the GPUs: Ampere keeps its MIG mode, and no GPU its partitions."""
        for gpu in self.gpus:
            gpu["mode"] = gpu["pending"] = gpu["pending"] if gpu["ampere"] else "Disabled"
            gpu["made"] = []
        (self.directory / "gpus.json").write_text(json.dumps(self.gpus))


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Machine]:
    def make(count: int = 2, **of_gpu: object) -> Machine:
        gpu = {
            "id": "0x233010DE",
            "mode": "Disabled",
            "pending": "Disabled",
            "ampere": False,
            "busy": 0,
            "refuses": False,
            "made": [],
            **of_gpu,
        }
        (tmp_path / "gpus.json").write_text(json.dumps([gpu] * count))
        for name, text in (
            ("nvidia-smi", NVIDIA_SMI),
            ("systemctl", f'#!/bin/sh\necho "$@" >>{tmp_path}/systemctl.log\n'),
        ):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        return Machine(tmp_path)

    return make


def test_gpus_are_partitioned_largest_first(machine: Callable[..., Machine]) -> None:
    node = machine()
    node.boot([{"1g.10gb": 4, "3g.40gb": 1}] * 2)
    assert node.code == 0
    assert node.result["result"] == "success"
    assert [gpu["made"] for gpu in node.gpus] == [["3g.40gb", *["1g.10gb"] * 4]] * 2


def test_each_gpu_gets_its_layout_and_a_whole_gpu_is_unchanged(
    machine: Callable[..., Machine],
) -> None:
    node = machine()
    node.boot([{}, {"7g.80gb": 1}])
    assert [(gpu["mode"], gpu["made"]) for gpu in node.gpus] == [
        ("Disabled", []),
        ("Enabled", ["7g.80gb"]),
    ]


def test_a_second_start_changes_nothing(machine: Callable[..., Machine]) -> None:
    node = machine()
    node.boot([{"7g.80gb": 1}] * 2)
    before, calls = node.gpus, node.calls
    node.boot([{"7g.80gb": 1}] * 2)
    assert (node.gpus, node.calls) == (before, calls)
    assert node.result["result"] == "success"


def test_partitions_are_recreated_after_each_reboot(machine: Callable[..., Machine]) -> None:
    node = machine()
    for _ in range(2):
        node.boot([{"3g.40gb": 2}] * 2)
        assert node.result["result"] == "success"
        node.restart()


def test_an_a100_reboots_once_and_does_not_join_before(machine: Callable[..., Machine]) -> None:
    node = machine(ampere=True, id="0x20B010DE")
    output = node.boot([{"1g.5gb": 7}] * 2, "A100-40")
    assert node.code != 0
    assert "reboots once" in output
    assert "reboot" in node.calls
    assert not (node.directory / "run").exists()
    node.restart()
    node.boot([{"1g.5gb": 7}] * 2, "A100-40")
    assert node.code == 0
    assert node.result["result"] == "success"
    assert node.calls.count("reboot") == 1


def test_a_mode_that_stays_pending_is_not_waited_for_with_more_reboots(
    machine: Callable[..., Machine],
) -> None:
    node = machine(ampere=True, id="0x20B010DE")
    for _ in range(2):
        output = node.boot([{"1g.5gb": 7}] * 2, "A100-40")
    assert node.calls.count("reboot") == 1
    assert node.code == 0
    assert "still pending after a reboot" in output


def test_a_gpu_in_use_is_tried_again(machine: Callable[..., Machine]) -> None:
    node = machine(busy=2)
    node.boot([{"7g.80gb": 1}] * 2)
    assert node.result["result"] == "success"


@pytest.mark.parametrize(
    ("of_gpu", "why"),
    [
        ({"busy": 9}, "the MIG mode does not change"),
        ({"refuses": True}, "GPU 0: 7g.80gb cannot be created"),
        ({"id": "0x26B510DE"}, "a GPU has PCI ID 0x26B510DE"),
    ],
)
def test_a_node_joins_with_the_reason_if_its_gpus_cannot_be_partitioned(
    machine: Callable[..., Machine], of_gpu: dict[str, object], why: str
) -> None:
    node = machine(**of_gpu)
    node.boot([{"7g.80gb": 1}] * 2)
    assert node.code == 0
    assert node.result["result"] == "failed"
    assert why in node.result["message"]
