"""The GPU operator's own MIG configs, by rule: as many of one profile as fit, and four that have
names of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from infra.catalog.rows import Gpu, NamedConfig

_OPERATOR = "default-mig-parted-config of NVIDIA/gpu-operator v26.7.0"


def configs_of(gpu: Gpu, holes: Mapping[str, tuple[str, ...]]) -> dict[str, NamedConfig]:
    """Every config that cuts `gpu`, by name. holes: config -> PCI ids that the operator's device
    filter forgets.
    """
    layouts: dict[str, Mapping[str, int]] = {
        config_name(p.name): {p.name: p.kind.most} for p in gpu.profiles.values()
    }
    layouts["all-balanced"] = gpu.balanced()
    layouts["all-enabled"] = {}
    layouts["all-disabled"] = {}
    if unknown := set(holes) - set(layouts):
        raise ValueError(f"holes in configs that {gpu.name} has not: {sorted(unknown)}")
    return {
        name: NamedConfig(
            name=name,
            mig=name != "all-disabled",
            layout=MappingProxyType(dict(layout)),
            without=tuple(holes.get(name, ())),
            source=_OPERATOR,
        )
        for name, layout in layouts.items()
    }


def config_name(profile: str) -> str:
    """A config's name is also the value of a label, where `+` is not allowed."""
    return f"all-{profile.replace('+', '.')}"
