"""The default MIG configs of the GPU operator, derived from the profiles of each GPU."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from slicewright.infra.catalog.gpus import Gpu, NamedConfig

_OPERATOR = "default-mig-parted-config of NVIDIA/gpu-operator v26.7.0"


def configs_of(gpu: Gpu, exceptions: Mapping[str, tuple[str, ...]]) -> dict[str, NamedConfig]:
    """All configs for `gpu` by name. exceptions: config -> PCI IDs that its device filter lacks."""
    layouts: dict[str, Mapping[str, int]] = {
        config_name(p.name): {p.name: p.kind.most} for p in gpu.profiles.values()
    }
    layouts["all-balanced"] = gpu.balanced()
    layouts["all-enabled"] = {}
    layouts["all-disabled"] = {}
    if unknown := set(exceptions) - set(layouts):
        raise ValueError(f"exceptions for unknown configs of {gpu.name}: {sorted(unknown)}")
    return {
        name: NamedConfig(
            name=name,
            mig=name != "all-disabled",
            layout=MappingProxyType(dict(layout)),
            without=tuple(exceptions.get(name, ())),
            source=_OPERATOR,
        )
        for name, layout in layouts.items()
    }


def config_name(profile: str) -> str:
    """The operator's name of the config. Label values such as this name cannot contain `+`."""
    return f"all-{profile.replace('+', '.')}"
