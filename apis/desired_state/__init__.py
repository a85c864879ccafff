"""The desired-state file, version v1: how a node of a pool must look.

The Pulumi program writes it, the agent reads it. Standard library only, because infra imports it.
The file is JSON:

    {"version": "v1", "pool": "h100-partition-3g", "partitioner": "gke",
     "gpu_count": 8, "gpu_models": ["NVIDIA H100 80GB HBM3"], "gpu_memory_mib": 81559,
     "gpus": [{"index": "all", "mig": true, "instances": {"3g.40gb": 2}}],
     "resources": {"nvidia.com/gpu": 16}}

`dump` leaves out optional keys that have their default. A later version of this module that knows
more keys therefore gives today's layouts the same text, and the same hash.
"""

from slicewright.apis.desired_state.canonical import digest, dump, hash_of
from slicewright.apis.desired_state.contradictions import check
from slicewright.apis.desired_state.model import (
    LARGEST,
    VERSION,
    Desired,
    DesiredError,
    DesiredGpu,
    DesiredShares,
    DesiredSharing,
    Partitioner,
    SharingStrategy,
)
from slicewright.apis.desired_state.reading import assigned_or_declared, parse

__all__ = [
    "LARGEST",
    "VERSION",
    "Desired",
    "DesiredError",
    "DesiredGpu",
    "DesiredShares",
    "DesiredSharing",
    "Partitioner",
    "SharingStrategy",
    "assigned_or_declared",
    "check",
    "digest",
    "dump",
    "hash_of",
    "parse",
]
