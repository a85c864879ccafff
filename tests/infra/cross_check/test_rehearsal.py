"""The catalog against the rehearsal's own tables of GPUs and machine types.

These were written independently, from the same public sources; an error in one of them shows here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from slicewright.infra import catalog
from slicewright.infra.catalog import Cloud, Gpu
from slicewright.rehearsal.clouds.aws.machines import extra_machines as simulated_aws
from slicewright.rehearsal.clouds.core.machines import Machine as SimulatedMachine
from slicewright.rehearsal.clouds.gcp.machines import extra_machines as simulated_gcp
from slicewright.rehearsal.cluster.silicon.models import Model, models

CATALOG = catalog.load()
KEYS: Mapping[str, str] = {"H100-94": "H100-NVL"}
"""Our name -> the fake's key, where they differ."""
WITHOUT = {"H100-96", "GB300"}
"""GPUs that the fake does not have."""
BOTH = [gpu for gpu in CATALOG.gpus.values() if gpu.name not in WITHOUT]
SIMULATED: Mapping[Cloud, Mapping[str, SimulatedMachine]] = {
    "gke": simulated_gcp(),
    "eks": simulated_aws(),
}
KNOWN: Mapping[str, str] = {
    f"H200 {profile} memory: {listed} here, {listed + 256} there": "the catalog keeps an older "
    "driver's, because the smaller decides what fits; the fake has what 580.159.04 answered"
    for listed, profiles in {33024: ("1g.35gb", "2g.35gb"), 71168: ("3g.71gb", "4g.71gb")}.items()
    for profile in profiles
}
"""Difference -> why it is no fault."""


def model_of(gpu: Gpu) -> Model:
    return models()[KEYS.get(gpu.name, gpu.name)]


def differences(gpu: Gpu, model: Model) -> Iterator[str]:
    def compare(what: str, ours: object, theirs: object) -> Iterator[str]:
        if ours is not None and ours != theirs:
            yield f"{gpu.name} {what}: {ours} here, {theirs} there"

    yield from compare("name", model.name in gpu.products, True)
    yield from compare("PCI id", f"0x{model.pci_id:04X}10DE" in gpu.pci_ids, True)
    yield from compare("memory", gpu.memory_mib, model.memory_mib)
    yield from compare("SMs", gpu.sms, model.sms)
    mode = "none" if gpu.family is None else "after reset" if gpu.mode_change_resets else "at once"
    yield from compare("MIG mode", mode, model.mig)
    yield from compare("slots", gpu.family.slots if gpu.family else 0, model.slots)
    yield from compare(
        "compute slices", gpu.family.compute if gpu.family else 0, model.compute_slices
    )
    yield from compare("profiles", sorted(gpu.profiles), sorted(s.name for s in model.slices))
    for theirs in model.slices:
        if theirs.name not in gpu.profiles:
            continue
        own = gpu.profiles[theirs.name]
        kind, engines = own.kind, own.engines
        for what, here, there in (
            ("enum", kind.nvml, theirs.profile),
            ("id", kind.id, theirs.id),
            ("slices", kind.compute, theirs.compute_slices),
            ("most", kind.most, theirs.most),
            ("starts", kind.starts, theirs.starts),
            ("slots", kind.size, theirs.size),
            ("SMs", own.sms, theirs.sms),
            ("memory", own.memory_mib, theirs.memory_mib),
            ("decoders", engines and engines.decoders, theirs.decoders),
            ("encoders", engines and engines.encoders, theirs.encoders),
            ("JPEG engines", engines and engines.jpegs, theirs.jpegs),
            ("OFAs", engines and engines.ofas, theirs.ofas),
        ):
            yield from compare(f"{own.name} {what}", here, there)


@pytest.mark.parametrize("gpu", BOTH, ids=lambda gpu: gpu.name)
def test_the_fake_gpus_have_the_catalogs_profiles(gpu: Gpu) -> None:
    assert [d for d in differences(gpu, model_of(gpu)) if d not in KNOWN] == []


def test_every_gpu_of_the_catalog_has_a_fake_but_two() -> None:
    assert {KEYS.get(gpu.name, gpu.name) for gpu in BOTH} <= set(models())
    assert not WITHOUT & set(models())


def simulated_machines() -> Iterator[tuple[Cloud, str]]:
    for cloud, machines in SIMULATED.items():
        for name in machines:
            yield cloud, name


@pytest.mark.parametrize(("cloud", "name"), list(simulated_machines()))
def test_a_simulated_machine_equals_the_catalogs(cloud: Cloud, name: str) -> None:
    theirs = SIMULATED[cloud][name]
    ours = CATALOG.machines.get((cloud, name)) or catalog.general_machine(cloud, name)
    assert ours is not None
    assert (ours.vcpus, ours.memory_gib, ours.gpu_count) == (
        theirs.vcpu,
        theirs.ram_gib,
        theirs.gpu_count,
    )
    assert ours.local_ssds == theirs.local_ssd
    if cloud == "eks":
        assert ours.pods == theirs.pods
        if ours.efa is not None:
            assert ours.efa == theirs.efa
        assert (ours.gpu.name if ours.gpu else None) == theirs.gpu
    else:
        assert ours.accelerator == theirs.gpu
        if ours.boot_disks is not None:
            assert ours.boot_disks == tuple(theirs.boot_disks)
        if ours.local_ssd_choices is not None:
            assert ours.local_ssd_choices == tuple(theirs.local_ssd_choices)
        for choice in ours.attachable:
            assert choice.counts == theirs.gpu_choices[choice.accelerator]
    if ours.zones is not None and theirs.zones is not None:
        assert set(ours.zones) == set(theirs.zones)
