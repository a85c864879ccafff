"""Addresses of GPUs and MIG devices, as in CUDA_VISIBLE_DEVICES, with both MIG forms."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slicewright.node_agent.nvml.observed import MigDevice, Observation, ObservedGpu

_HEX = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_GPU = re.compile(rf"GPU-{_HEX}", re.IGNORECASE)
_MIG = re.compile(rf"MIG-{_HEX}", re.IGNORECASE)
_OLD = re.compile(
    rf"MIG-(?P<gpu>GPU-{_HEX})/(?P<instance>\d{{1,3}})/(?P<compute>\d{{1,3}})", re.IGNORECASE
)


class InvalidAddress(ValueError):
    """The text is not an address. The message lists the valid forms."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """A GPU or a MIG device: by UUID, or before driver R470 by GPU and instances."""

    gpu: str | None = None
    mig: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


def parse(text: str) -> Address:
    """Parses `GPU-<uuid>`, `MIG-<uuid>` or `MIG-GPU-<uuid>/<GPU instance>/<compute instance>`.

    Raises InvalidAddress.
    """
    if _GPU.fullmatch(text):
        return Address(gpu=_plain(text))
    if _MIG.fullmatch(text):
        return Address(mig=_plain(text))
    if old := _OLD.fullmatch(text):
        return Address(
            gpu=_plain(old["gpu"]),
            gpu_instance=int(old["instance"]),
            compute_instance=int(old["compute"]),
        )
    raise InvalidAddress(
        f"{text!r} is not an address; write GPU-<uuid>, MIG-<uuid> or "
        "MIG-GPU-<uuid>/<GPU instance>/<compute instance>"
    )


def find(address: Address, observation: Observation) -> tuple[ObservedGpu, MigDevice | None] | None:
    """The GPU, or GPU and MIG device, at an address, None if this machine lacks it."""
    for gpu in observation.gpus:
        if address.gpu and _plain(gpu.uuid or "") == address.gpu and address.gpu_instance is None:
            return gpu, None
        for device in gpu.devices:
            theirs = parse_or_none(device.uuid)
            by_instance = _plain(gpu.uuid or "") == address.gpu and (
                device.gpu_instance,
                device.compute_instance,
            ) == (
                address.gpu_instance,
                address.compute_instance,
            )
            if (address.mig and theirs and theirs.mig == address.mig) or by_instance:
                return gpu, device
    return None


def parse_or_none(text: str) -> Address | None:
    try:
        return parse(text)
    except InvalidAddress:
        return None


def _plain(uuid: str) -> str:
    # Hexadecimal digits may have either case, but the prefix is always upper case.
    return uuid[:4].upper() + uuid[4:].lower()
