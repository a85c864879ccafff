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
from infra.catalog.regions import Aws, AwsRegion, Gcp, aws, aws_region, gcp, is_zone_id, offerings

__all__ = [
    "Accelerator",
    "Attachable",
    "Aws",
    "AwsRegion",
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
    "Gcp",
    "Gpu",
    "Image",
    "Kind",
    "Machine",
    "NamedConfig",
    "Price",
    "Profile",
    "Together",
    "aws",
    "aws_region",
    "config_name",
    "driver_order",
    "gcp",
    "is_zone_id",
    "load",
    "offerings",
]
