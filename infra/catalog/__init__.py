"""Facts as data: GPUs, their MIG profiles, machine types, list prices, what GKE accepts. Each row names its source."""

from infra.catalog.loading import load
from infra.catalog.named import config_name
from infra.catalog.rows import (
    Accelerator,
    Attachable,
    Capacity,
    Catalog,
    CatalogError,
    Cloud,
    Engines,
    Family,
    Gpu,
    Kind,
    Machine,
    NamedConfig,
    Price,
    Profile,
    Together,
)

__all__ = [
    "Accelerator",
    "Attachable",
    "Capacity",
    "Catalog",
    "CatalogError",
    "Cloud",
    "Engines",
    "Family",
    "Gpu",
    "Kind",
    "Machine",
    "NamedConfig",
    "Price",
    "Profile",
    "Together",
    "config_name",
    "load",
]
