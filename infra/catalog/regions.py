"""The clouds' regions and zones, their Kubernetes versions, and which zones have a machine type.

Every file has a date. Later additions of a cloud are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from types import MappingProxyType

from slicewright.infra.catalog.toml_rows import read

_HERE = Path(__file__).parent / "data"
_PARTITIONS = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}
"""Prefix of a region's name -> its partition, if not `aws`. Source: botocore's partitions.json,
regionRegex.
"""
_ZONE_ID = re.compile(r"[a-z]{3,}[0-9]+(-[a-z]+[0-9]+)?-az[0-9]+")


@dataclass(frozen=True, kw_only=True, eq=False)
class AwsRegion:
    name: str
    partition: str
    """The partition in ARNs: aws, aws-us-gov, aws-cn."""
    suffix: str
    """DNS suffix of the service principals that differ by partition, such as EC2's."""
    zones: tuple[str, ...]
    """Zone ids. Unlike letters, they are the same in every account. Empty: unknown."""

    @property
    def letters(self) -> str:
        """The letters of the zones' names. Empty: unknown. An account may see fewer."""
        last = max((int(zone.rpartition("-az")[2]) for zone in self.zones), default=0)
        return "abcdefghij"[:last]


@dataclass(frozen=True, kw_only=True, eq=False)
class KubernetesVersion:
    """A minor version of Kubernetes in a cloud. A date that no source has is None: unknown."""

    minor: str
    standard: date | None = None
    """The last day of standard support."""
    extended: date | None = None
    """The last day of extended support."""

    def has_standard_support(self, day: date) -> bool:
        return self.standard is None or day <= self.standard

    def is_supported(self, day: date) -> bool:
        """True until extended support ends, or as long as its end is unknown."""
        return self.extended is None or day <= self.extended


@dataclass(frozen=True, kw_only=True, eq=False)
class Aws:
    day: date
    """The day of the record."""
    regions: Mapping[str, AwsRegion]
    versions: Mapping[str, KubernetesVersion]
    """Kubernetes versions of EKS, also those whose support has ended: the oldest first."""
    no_control_plane: frozenset[str]
    """Ids of zones where EKS has no room for control planes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Gcp:
    day: date
    """The day of the record."""
    zones: Mapping[str, tuple[str, ...]]
    """Region -> zones."""
    versions: Mapping[str, KubernetesVersion]
    """Kubernetes minor versions of GKE, the oldest first."""


def _versions(rows: Mapping[str, Mapping[str, date]]) -> Mapping[str, KubernetesVersion]:
    versions = {minor: KubernetesVersion(minor=minor, **ends) for minor, ends in rows.items()}
    return MappingProxyType(versions)


@cache
def aws() -> Aws:
    raw = read(_HERE, "aws.toml")
    return Aws(
        day=date.fromisoformat(raw["date"]),
        regions=MappingProxyType(
            {
                name: AwsRegion(
                    name=name,
                    partition=part["name"],
                    suffix=part["suffix"],
                    zones=tuple(zones),
                )
                for part in raw["partition"]
                for name, zones in part["regions"].items()
            }
        ),
        versions=_versions(raw["eks_versions"]),
        no_control_plane=frozenset(raw["no_control_plane"]),
    )


def aws_region(name: str) -> AwsRegion:
    """The region of that name. A region that the record lacks has unknown zones."""
    regions = aws().regions
    if name in regions:
        return regions[name]
    partition = next((p for prefix, p in _PARTITIONS.items() if name.startswith(prefix)), "aws")
    suffix = next(region.suffix for region in regions.values() if region.partition == partition)
    return AwsRegion(name=name, partition=partition, suffix=suffix, zones=())


@cache
def gcp() -> Gcp:
    raw = read(_HERE, "gcp.toml")
    return Gcp(
        day=date.fromisoformat(raw["date"]),
        zones=MappingProxyType(
            {
                region: tuple(f"{region}-{letter}" for letter in letters)
                for region, letters in raw["regions"].items()
            }
        ),
        versions=_versions(raw["gke_versions"]),
    )


@cache
def offerings() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """EC2 instance type -> region -> ids of the zones that have it. Other types: unknown."""
    zones_of: dict[str, dict[str, tuple[str, ...]]] = {}
    for region, groups in read(_HERE, "aws_offerings.toml").items():
        for zones, types in groups.items():
            for name in types.split():
                zones_of.setdefault(name, {})[region] = tuple(zones.split())
    return zones_of


def is_zone_id(zone: str) -> bool:
    """True for the id of an AWS zone (use1-az6), false for a name (us-east-1a)."""
    return _ZONE_ID.fullmatch(zone) is not None
