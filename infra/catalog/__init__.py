"""Facts as data: GPUs, their MIG profiles, drivers, machine types, list prices, what GKE accepts.
Each row names its source.
"""

from infra.catalog.loading import load
from infra.catalog.named import config_name
from infra.catalog.rows import (
    Accelerator,
    Attachable,
    Capacity,
    Catalog,
    CatalogError,
    Chart,
    Cloud,
    Engines,
    Family,
    Fault,
    Gpu,
    Image,
    Kind,
    LeftOut,
    Machine,
    NamedConfig,
    PluginFault,
    Price,
    Profile,
    Together,
    driver_order,
)

__all__ = [
    "Accelerator",
    "Attachable",
    "Capacity",
    "Catalog",
    "CatalogError",
    "Chart",
    "Cloud",
    "Engines",
    "Family",
    "Fault",
    "Gpu",
    "Image",
    "Kind",
    "LeftOut",
    "Machine",
    "NamedConfig",
    "PluginFault",
    "Price",
    "Profile",
    "Together",
    "config_name",
    "driver_order",
    "load",
]
