"""The result of a probe of a machine's GPUs: plain frozen values as the driver reports them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

MigMode = Literal["enabled", "disabled", "unsupported", "unknown"]
ComputeMode = Literal["default", "exclusive thread", "prohibited", "exclusive process"]
FabricState = Literal["not supported", "not started", "in progress", "completed"]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed call, with the message of NVML or of the probe itself."""

    call: str
    """The NVML function, or `probe` if the probe as a whole failed."""
    code: int
    """NVML return code, TIMED_OUT or BROKEN."""
    text: str


TIMED_OUT = -1
"""The driver did not answer in time."""
BROKEN = -2
"""The probe's process ended without an answer."""


@dataclass(frozen=True, kw_only=True)
class Engines:
    """Media engines of an instance or a profile. `+me` and `-me` profiles differ in them."""

    decoders: int
    encoders: int
    jpeg: int
    ofa: int


@dataclass(frozen=True, kw_only=True)
class Vitals:
    """Health of a GPU. None: not provided by driver, GPU or privileges.

    Only the facts in `ObservedGpu.repairs` influence a verdict.
    """

    minor: int | None = None
    """Minor number, as in /dev/nvidia<minor>."""
    temperature_c: int | None = None
    memory_temperature_c: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    sm_clock_mhz: int | None = None
    slowdowns: tuple[str, ...] | None = None
    """Reasons that keep the clocks down, except idling."""
    utilization_percent: int | None = None
    """None in MIG mode, too, because the driver does not measure it."""
    ecc: bool | None = None
    ecc_corrected: int | None = None
    """Memory errors since the driver was loaded."""
    ecc_uncorrected: int | None = None
    remapped_correctable: int | None = None
    """Rows (Ampere and later)."""
    remapped_uncorrectable: int | None = None
    remap_pending: bool | None = None
    """A reset is needed before a bad row is out of use."""
    remap_failed: bool | None = None
    """No spare row was left: replace the GPU."""
    retired_single: int | None = None
    """Pages (before Ampere)."""
    retired_double: int | None = None
    retired_pending: bool | None = None
    recovery_action: str | None = None
    """The driver's request after an error: `none`, `reset the GPU`, `reboot the node`, ..."""
    nvlinks_up: int | None = None
    """None in MIG mode, too, which turns them off."""
    nvlinks_down: int | None = None
    pcie_replays: int | None = None


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The NVLink fabric of a machine with NVSwitches, as the driver of one GPU sees it.

    "completed" outlives Fabric Manager, which sets the fabric up.
    """

    state: FabricState
    status: int = 0
    """NVML return code of a completed set-up, 0 for success."""
    faults: tuple[str, ...] = ()
    """Reported problems that keep the GPU from using the fabric."""
    notes: tuple[str, ...] = ()
    """Reported problems that pass, or only slow it down."""


Repair = str
"""The driver's request: `reset the GPU`, `reboot the node`, `drain and reset` or `action <n>`, as
in `Vitals.recovery_action`. It can also be REMAP_PENDING, REMAP_FAILED or RETIREMENT_PENDING.
"""
REMAP_PENDING: Repair = "remap pending"
REMAP_FAILED: Repair = "remap failed"
RETIREMENT_PENDING: Repair = "retirement pending"


@dataclass(frozen=True, kw_only=True)
class Utilization:
    """Utilization over `utilization.WINDOW_S` of a thorough probe, 0 to 1. None: not measured."""

    gpu_instance: int | None
    """None: the whole GPU, with MIG off."""
    graphics: float | None
    """Fraction of the time with a compute kernel or graphics running."""
    sm: float | None
    """Fraction of the multiprocessors that had work."""
    dram: float | None
    """Fraction of the memory bandwidth."""


@dataclass(frozen=True, kw_only=True)
class Xid:
    """An error that the driver wrote to the kernel log."""

    number: int
    at_s: float
    """Seconds since boot."""
    text: str
    """Everything after the number."""
    process: int | None = None
    """Its id on the host."""
    gpu_instance: int | None = None


@dataclass(frozen=True, kw_only=True)
class OfferedProfile:
    """A GPU instance profile that the driver offers on this GPU, from
    nvmlDeviceGetGpuInstanceProfileInfo.
    """

    id: int
    name: str | None
    """The driver's name without `MIG `, None if the driver does not report it."""
    suffix: str
    """`+me`, `+gfx`, `-me`, `+me.all` or empty, from the number under which the driver lists the
    profile.
    """
    slices: int
    memory_mib: int
    multiprocessors: int
    engines: Engines
    most: int = 0
    """Number of instances that the GPU can have at once, or 0 if not read."""


@dataclass(frozen=True, kw_only=True)
class MigDevice:
    """A compute instance, which CUDA sees as a device."""

    uuid: str
    gpu_instance: int
    compute_instance: int
    gpu_slices: int
    """Compute slices of its GPU instance."""
    compute_slices: int
    """Compute slices of this instance: fewer than gpu_slices if several share a GPU instance."""
    memory_mib: int
    multiprocessors: int
    engines: Engines
    name: str
    """The device's name from NVML, with `MIG <profile>` at its end on recent drivers."""
    memory_used_mib: int | None = None
    """Used memory from thorough probes, like the processes."""
    processes: tuple[int, ...] | None = None
    """Process ids in the driver's namespace, which need not be a container's."""


@dataclass(frozen=True, kw_only=True)
class GpuInstance:
    """A GPU instance, from privileged calls."""

    id: int
    profile: int
    """Profile id, as in OfferedProfile.id."""
    start: int
    size: int
    """Placement in memory slices."""


@dataclass(frozen=True, kw_only=True)
class ObservedGpu:
    """A GPU. Unreadable facts are None, and `failure` has the reason if it matters."""

    index: int
    uuid: str | None = None
    model: str | None = None
    pci_bus_id: str | None = None
    memory_mib: int | None = None
    """None in MIG mode without privileges, too."""
    mig: MigMode = "unknown"
    mig_pending: MigMode = "unknown"
    devices: tuple[MigDevice, ...] = ()
    offered: tuple[OfferedProfile, ...] = ()
    gpu_instances: tuple[GpuInstance, ...] | None = None
    """None without privileges: GPU instances without compute instance are then invisible."""
    memory_slices: int | None = None
    """Memory slices of the whole GPU, mostly eight. None without privileges."""
    processes: tuple[int, ...] | None = None
    """Processes on the whole GPU, from thorough probes."""
    repairs: tuple[Repair, ...] = ()
    """Requested repairs, from every probe."""
    compute_mode: ComputeMode | None = None
    """None in MIG mode, too, which has always the default."""
    fabric: Fabric | None = None
    """None if the driver does not report it."""
    vitals: Vitals | None = None
    """Health, from thorough probes."""
    utilization: tuple[Utilization, ...] = ()
    """Utilization, from thorough probes that measure it."""
    utilization_failure: Failure | None = None
    """Why utilization was not measured."""
    xids: tuple[Xid, ...] = ()
    """The newest Xids in the kernel log, oldest first. NVML does not report them."""
    xid_counts: tuple[tuple[int, int], ...] = ()
    """(Xid, count) since boot, or as far back as the kernel log goes."""
    stands: Xid | None = None
    """The outstanding Xid: this GPU needs a reset or a reboot. None: no known Xid."""
    failure: Failure | None = None
    """The first failed call that is required to judge this GPU."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A whole machine. If `failure` is set, no other fact is known."""

    driver: str | None = None
    cuda: str | None = None
    """The newest CUDA version that the driver supports, `12.4`."""
    gpus: tuple[ObservedGpu, ...] = ()
    failure: Failure | None = None

    @property
    def uuids(self) -> dict[int, str]:
        """NVML index -> UUID, empty for a GPU whose UUID cannot be read."""
        return {gpu.index: gpu.uuid or "" for gpu in self.gpus}


def packed(observation: Observation) -> bytes:
    """The bytes for the pipe from the worker. They are read in a sixth of JSON's time."""
    return pickle.dumps(observation, pickle.HIGHEST_PROTOCOL)


def unpacked(data: bytes) -> Observation:
    """The inverse of `packed`. Only for data from a process of ours."""
    observation: Observation = pickle.loads(data)  # noqa: S301 - written by our own child
    return observation


def dump(observation: Observation) -> str:
    """JSON of an observation, for `show --json`."""
    return json.dumps(observation, default=vars, separators=(",", ":"))


def as_json(part: ObservedGpu | MigDevice) -> str:
    """JSON of a GPU or MIG device, in the format of `dump`."""
    return json.dumps(part, default=vars, separators=(",", ":"))


def parse(text: str) -> Observation:
    """The inverse of `dump`. Raises KeyError, TypeError or ValueError on anything else."""
    raw = json.loads(text)
    return Observation(
        driver=raw["driver"],
        cuda=raw["cuda"],
        gpus=tuple(map(_gpu, raw["gpus"])),
        failure=_failure(raw["failure"]),
    )


def _failure(raw: Mapping[str, Any] | None) -> Failure | None:
    return None if raw is None else Failure(**raw)


def _gpu(raw: Mapping[str, Any]) -> ObservedGpu:
    instances = raw["gpu_instances"]
    vitals = raw["vitals"]
    nested = {
        "devices": tuple(map(_device, raw["devices"])),
        "offered": tuple(
            OfferedProfile(**{**p, "engines": Engines(**p["engines"])}) for p in raw["offered"]
        ),
        "gpu_instances": None if instances is None else tuple(GpuInstance(**i) for i in instances),
        "processes": _tuple(raw["processes"]),
        "repairs": tuple(raw["repairs"]),
        "fabric": _fabric(raw.get("fabric")),
        "vitals": None
        if vitals is None
        else Vitals(**{**vitals, "slowdowns": _tuple(vitals["slowdowns"])}),
        "utilization": tuple(Utilization(**u) for u in raw["utilization"]),
        "utilization_failure": _failure(raw["utilization_failure"]),
        "xids": tuple(Xid(**xid) for xid in raw["xids"]),
        "xid_counts": tuple((number, count) for number, count in raw["xid_counts"]),
        "stands": None if raw["stands"] is None else Xid(**raw["stands"]),
        "failure": _failure(raw["failure"]),
    }
    return ObservedGpu(**{**raw, **nested})


def _fabric(raw: Mapping[str, Any] | None) -> Fabric | None:
    if raw is None:
        return None
    return Fabric(**{**raw, "faults": tuple(raw["faults"]), "notes": tuple(raw["notes"])})


def _device(raw: Mapping[str, Any]) -> MigDevice:
    return MigDevice(
        **{**raw, "engines": Engines(**raw["engines"]), "processes": _tuple(raw["processes"])}
    )


def _tuple(raw: list[Any] | None) -> tuple[Any, ...] | None:
    return None if raw is None else tuple(raw)
