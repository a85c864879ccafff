"""The catalog's MIG tables against go-nvml's mock GPUs, with the reason for each difference."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import catalog
from slicewright.infra.catalog import Gpu

GPUS = catalog.load().gpus
CROSS_CHECK = Path(__file__).parents[1] / "cross_check"
MAIN: Mapping[str, Any] = tomllib.loads((CROSS_CHECK / "go_nvml_main.toml").read_text())
Facts = dict[str, object]

_MEMORY = "rounded to the name's whole GiB; lgip prints less"
_SMS = "slices x SMs of one slice; a slice's SMs do not add up like that on Hopper and later"
_SLOTS = "compute slices taken for memory slots: a 3g holds 4 of 8, a 7g all 8"
_DOUBLE = "copied from the plain 1g: a double-memory 1g holds 2 slots, from an even one"

KNOWN: Mapping[str, Mapping[str, tuple[object, str]]] = {
    # GPU -> fact -> what the mock says, and why it is not believed.
    "A30": {
        "1g.6gb memory": (
            5836,
            "a thousandth of the whole less per slice; the MIG guide's lgip says 5.81 GiB",
        ),
        "1g.6gb+me memory": (5836, "as 1g.6gb"),
        "2g.12gb memory": (11672, "as 1g.6gb; 11.69 GiB"),
        "2g.12gb+me memory": (11672, "as 1g.6gb; 11.69 GiB"),
        "4g.24gb memory": (23344, "as 1g.6gb; 23.44 GiB"),
    },
    "A100-80": {
        "1g.10gb memory": (9856, "boards differ, 9.5 to 9.75 GiB"),
        "1g.10gb+me memory": (9856, "boards differ, 9.5 to 9.75 GiB"),
        "7g.80gb memory": (80384, "boards differ; lgip says 79 GiB"),
        "3g.40gb slots": (3, _SLOTS),
        "1g.20gb slots": (1, _DOUBLE),
        "1g.20gb starts": ((0, 1, 2, 3, 4, 5, 6), _DOUBLE),
    },
    "H100-80": {
        "total memory": (81920, _MEMORY),
        "1g.10gb memory": (10240, _MEMORY),
        "1g.10gb+me memory": (10240, _MEMORY),
        "1g.20gb memory": (20480, _MEMORY),
        "2g.20gb memory": (20480, _MEMORY),
        "3g.40gb memory": (40960, _MEMORY),
        "4g.40gb memory": (40960, _MEMORY),
        "7g.80gb memory": (81920, _MEMORY),
        "1g.20gb SMs": (16, _DOUBLE),
        "3g.40gb SMs": (48, _SMS),
        "7g.80gb SMs": (112, _SMS),
        "3g.40gb slots": (3, _SLOTS),
        "7g.80gb slots": (7, _SLOTS),
        "1g.20gb slots": (1, _DOUBLE),
        "1g.20gb starts": ((0, 1, 2, 3, 4, 5, 6), _DOUBLE),
    },
    "H200": {
        "PCI id": (
            "0x233310DE",
            "no board of NVIDIA's; the operator's filters and pci.ids have 0x2335",
        ),
        "total memory": (144384, _MEMORY),
        "1g.18gb memory": (18432, _MEMORY),
        "1g.18gb+me memory": (18432, _MEMORY),
        "1g.35gb memory": (35840, _MEMORY),
        "2g.35gb memory": (35840, _MEMORY),
        "3g.71gb memory": (72704, _MEMORY),
        "4g.71gb memory": (72704, _MEMORY),
        "7g.141gb memory": (144384, _MEMORY),
        "1g.35gb SMs": (16, _DOUBLE),
        "3g.71gb SMs": (48, _SMS),
        "7g.141gb SMs": (112, _SMS),
        "3g.71gb slots": (3, _SLOTS),
        "7g.141gb slots": (7, _SLOTS),
        "1g.35gb slots": (1, _DOUBLE),
        "1g.35gb starts": ((0, 1, 2, 3, 4, 5, 6), _DOUBLE),
    },
    "B200": {
        "PCI id": (
            "0x2B0010DE",
            "not B200's: the operator's filters, pci.ids and a capture have 0x2901",
        ),
        "total memory": (184320, _MEMORY),
        "1g.23gb memory": (23552, _MEMORY),
        "1g.23gb+me memory": (23552, _MEMORY),
        "1g.45gb memory": (46080, _MEMORY),
        "2g.45gb memory": (46080, _MEMORY),
        "1g.45gb SMs": (18, _DOUBLE),
        "3g.90gb slots": (3, _SLOTS),
        "7g.180gb slots": (7, _SLOTS),
        "1g.45gb slots": (1, _DOUBLE),
        "1g.45gb starts": ((0, 1, 2, 3, 4, 5, 6), _DOUBLE),
    },
}


def ours(gpu: Gpu, pci_id: str) -> Facts:
    """What the catalog knows; what it does not know is not compared. pci_id: the mock's, of which a
    model may have several.
    """
    facts: Facts = {
        "PCI id": pci_id if pci_id in gpu.pci_ids else gpu.pci_ids[0],
        "total memory": gpu.memory_mib,
    }
    for p in gpu.profiles.values():
        facts |= {
            f"{p.name} slices": p.kind.compute,
            f"{p.name} most": p.kind.most,
            f"{p.name} enum": p.kind.nvml,
        }
        facts |= {f"{p.name} starts": p.kind.starts, f"{p.name} slots": p.kind.size}
        facts |= {f"{p.name} memory": p.memory_mib, f"{p.name} SMs": p.sms}
    return {fact: value for fact, value in facts.items() if value is not None}


def named(gpu: Gpu, enum: int) -> str:
    return next(
        (p.name for p in gpu.profiles.values() if p.kind.nvml == enum), f"NVML profile {enum}"
    )


def noted(gpu: Gpu) -> Facts:
    """What go-nvml's main branch says, as noted."""
    said = MAIN[gpu.name]
    facts: Facts = {"PCI id": said["pci_id"], "total memory": said["memory_mib"]}
    for enum, (slices, most, sms, memory, starts, slots) in said["profiles"].items():
        name = named(gpu, int(enum))
        facts |= {f"{name} slices": slices, f"{name} most": most, f"{name} enum": int(enum)}
        facts |= {
            f"{name} starts": tuple(starts),
            f"{name} slots": slots,
            f"{name} memory": memory,
            f"{name} SMs": sms,
        }
    return facts


def differences(gpu: Gpu, theirs: Facts) -> dict[str, tuple[object, object]]:
    """Fact -> (what the catalog says, what the mock says). A fact that only one of them has is a
    difference, unless the catalog has it as unknown.
    """
    mine = ours(gpu, str(theirs["PCI id"]))
    unknown = {
        f"{p.name} {what}" for p in gpu.profiles.values() for what in ("memory", "SMs")
    } - set(mine)
    facts = {fact for fact in {*mine, *theirs} if fact not in unknown}
    return {
        fact: (mine.get(fact), theirs.get(fact))
        for fact in sorted(facts)
        if mine.get(fact) != theirs.get(fact)
    }


@pytest.mark.parametrize("name", MAIN)
def test_differences_from_the_main_branch_mocks_are_listed(name: str) -> None:
    gpu = GPUS[name]
    found = {fact: theirs for fact, (_, theirs) in differences(gpu, noted(gpu)).items()}
    assert found == {fact: said for fact, (said, _) in KNOWN[name].items()}


def test_a30_differs_from_its_mock_in_memory_only() -> None:
    """The one mock of that branch with all placements right."""
    assert not [fact for fact in KNOWN["A30"] if not fact.endswith("memory")]


@pytest.fixture(scope="module")
def mocks(cross_check: Callable[..., Any]) -> Mapping[str, Any]:
    """What the Go program prints."""
    answer: Mapping[str, Any] = json.loads(cross_check("mockgpus"))
    return answer


@pytest.mark.toolchain
def test_a100_equals_go_nvmls_mock(mocks: Mapping[str, Any]) -> None:
    """The one mock that the module registry serves; NVIDIA derived it from a real GPU, and it
    agrees in everything but ids.
    """
    gpu = GPUS["A100-40"]
    ((product, said),) = mocks.items()
    assert product == f"Mock {gpu.products[0]}"
    theirs: Facts = {"PCI id": f"0x{said['PciDeviceID']:08X}", "total memory": said["MemoryMiB"]}
    mine = ours(gpu, str(theirs["PCI id"]))
    for enum, profile in said["Profiles"].items():
        name, info, placements = named(gpu, int(enum)), profile["Info"], profile["Placements"]
        theirs |= {
            f"{name} slices": info["SliceCount"],
            f"{name} most": info["InstanceCount"],
            f"{name} enum": int(enum),
        }
        theirs |= {
            f"{name} starts": tuple(p["Start"] for p in placements),
            f"{name} memory": info["MemorySizeMB"],
        }
        theirs |= {
            f"{name} SMs": info["MultiprocessorCount"],
            f"{name} ids": (info["Id"], {p["Size"] for p in placements}),
        }
        theirs |= {
            f"{name} engines": tuple(
                info[f"{e}Count"] for e in ("CopyEngine", "Decoder", "Encoder", "Jpeg", "Ofa")
            )
        }
        theirs |= {
            f"{name} parts": {
                int(slices): count for slices, count in profile["ComputeInstances"].items()
            }
        }
    assert gpu.family is not None
    for p in gpu.profiles.values():
        e = p.engines
        assert e is not None
        mine |= {f"{p.name} engines": (e.copy, e.decoders, e.encoders, e.jpegs, e.ofas)}
        mine |= {f"{p.name} parts": dict(gpu.family.compute_instances[p.kind.compute])}
        # Its Id is NVML's enum over again, where a driver gives the number that nvidia-smi takes.
        mine |= {f"{p.name} ids": (p.kind.nvml, {p.kind.size})}
        del mine[f"{p.name} slots"]
    assert theirs == mine


@pytest.mark.toolchain
def test_the_registry_serves_no_other_mock_yet(go: Any, cross_check: Callable[..., Any]) -> None:
    """When it does, mockgpus/main.go must print it, and go_nvml_main.toml can go."""
    sdk, environment = go
    listed = subprocess.run(
        [sdk.program, "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml"],
        cwd=CROSS_CHECK,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    assert {d.name for d in (Path(listed) / "pkg/nvml/mock").iterdir() if d.is_dir()} == {"dgxa100"}
