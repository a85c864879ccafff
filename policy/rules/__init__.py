"""Every rule of the pack."""

from policy.rules import (
    clusters,
    drivers,
    karpenter,
    labels,
    operator_files,
    pool_rules,
    privileges,
    roles,
    shares,
    stacks,
    workloads,
)
from policy.rules.declared import UNKNOWN, Resource
from policy.rules.rule import ResourceRule, StackRule

RULES: tuple[ResourceRule | StackRule, ...] = (
    *clusters.RULES,
    *pool_rules.RULES,
    *karpenter.RULES,
    *labels.RULES,
    *roles.RULES,
    *workloads.RULES,
    *privileges.RULES,
    *operator_files.RULES,
    *drivers.RULES,
    *shares.RULES,
    *stacks.RULES,
)

__all__ = ["RULES", "UNKNOWN", "Resource", "ResourceRule", "StackRule"]
