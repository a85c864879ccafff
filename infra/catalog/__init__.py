"""Data about GPUs, MIG profiles, drivers, machine types, prices and GKE, each with its source."""

from infra.catalog.catalog import (
    Catalog,
    CatalogError,
    Chart,
    DcgmField,
    DevicePluginIssue,
    DriverIssue,
    Exclusion,
)
from infra.catalog.gpus import (
    Engines,
    Family,
    Gpu,
    Kind,
    NamedConfig,
    Profile,
    Together,
    driver_order,
)
from infra.catalog.loading import load
from infra.catalog.machines import (
    Accelerator,
    Attachable,
    Capacity,
    Cloud,
    Image,
    Machine,
    Price,
)
from infra.catalog.named import config_name

__all__ = [
    "Accelerator",
    "Attachable",
    "Capacity",
    "Catalog",
    "CatalogError",
    "Chart",
    "Cloud",
    "DcgmField",
    "DevicePluginIssue",
    "DriverIssue",
    "Engines",
    "Exclusion",
    "Family",
    "Gpu",
    "Image",
    "Kind",
    "Machine",
    "NamedConfig",
    "Price",
    "Profile",
    "Together",
    "config_name",
    "driver_order",
    "load",
]
