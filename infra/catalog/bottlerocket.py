"""The GPU partitions that Bottlerocket's MIG tool creates when a node boots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from slicewright.infra.catalog.gpus import Gpu, Profile
from slicewright.infra.catalog.toml_rows import read


@dataclass(frozen=True, kw_only=True)
class BottlerocketMig:
    models: Mapping[str, str]
    """Our name of a GPU model -> Bottlerocket's name, a key of its settings."""
    partitions: Mapping[str, int]
    """Kind of a profile -> how many of its partitions Bottlerocket creates on each GPU."""
    source: str

    def profiles(self, gpu: Gpu) -> tuple[Profile, ...]:
        """The profiles that it creates on this GPU, none if it does not know the model."""
        if gpu.name not in self.models:
            return ()
        return tuple(p for p in gpu.profiles.values() if p.kind.kind in self.partitions)


@cache
def bottlerocket_mig() -> BottlerocketMig:
    raw = read(Path(__file__).parent / "data", "bottlerocket.toml")
    return BottlerocketMig(
        models=MappingProxyType(raw["models"]),
        partitions=MappingProxyType(raw["partitions"]),
        source=raw["source"],
    )
