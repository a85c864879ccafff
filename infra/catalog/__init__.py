"""Data about GPUs, MIG profiles, drivers, machine types, prices and GKE, each with its source."""

from slicewright.infra.catalog.autoscaler import (
    AutoscalerReleases,
    KarpenterRelease,
    autoscaler_releases,
    karpenter_release,
)
from slicewright.infra.catalog.bottlerocket import BottlerocketMig, bottlerocket_mig
from slicewright.infra.catalog.catalog import (
    Catalog,
    Chart,
    DcgmField,
    DevicePluginIssue,
    DriverIssue,
    Exclusion,
    ImageIssue,
)
from slicewright.infra.catalog.catalog_error import CatalogError
from slicewright.infra.catalog.general_machines import general_machine, general_machines
from slicewright.infra.catalog.gpu_names import gpu_of_product, product_of, same_name
from slicewright.infra.catalog.gpus import (
    Engines,
    Family,
    Gpu,
    Kind,
    NamedConfig,
    Profile,
    Together,
    driver_order,
)
from slicewright.infra.catalog.loading import load
from slicewright.infra.catalog.machines import (
    Accelerator,
    Attachable,
    Capacity,
    Cloud,
    Image,
    Machine,
    UnlistedMachine,
)
from slicewright.infra.catalog.named_configs import config_name
from slicewright.infra.catalog.prices import Billing, Price, priced_names
from slicewright.infra.catalog.regions import (
    Aws,
    AwsRegion,
    Gcp,
    KubernetesVersion,
    aws,
    aws_region,
    gcp,
    is_zone_id,
    offerings,
)
from slicewright.infra.catalog.rights import (
    OPERATIONS,
    Behind,
    Calling,
    Operation,
    Rights,
    Scope,
    aws_rights,
    google_rights,
)
