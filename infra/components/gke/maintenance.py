"""The maintenance policy of a GKE cluster."""

from __future__ import annotations

import pulumi_gcp as gcp

from slicewright.infra.stack_file import (
    DailyMaintenance,
    GkeMaintenance,
    MaintenanceExclusion,
    RecurringMaintenance,
)


def maintenance_policy(
    maintenance: GkeMaintenance | None,
) -> gcp.container.ClusterMaintenancePolicyArgs | None:
    """The policy of a stack file. None leaves it to GKE, which then upgrades at any time."""
    if maintenance is None:
        return None
    exclusions = [_exclusion(exclusion) for exclusion in maintenance.exclusions]
    match maintenance.window:
        case DailyMaintenance(start=start):
            return gcp.container.ClusterMaintenancePolicyArgs(
                daily_maintenance_window=gcp.container.ClusterMaintenancePolicyDailyMaintenanceWindowArgs(
                    start_time=start
                ),
                maintenance_exclusions=exclusions,
            )
        case RecurringMaintenance(start=start, end=end, recurrence=recurrence):
            return gcp.container.ClusterMaintenancePolicyArgs(
                recurring_window=gcp.container.ClusterMaintenancePolicyRecurringWindowArgs(
                    start_time=start, end_time=end, recurrence=recurrence
                ),
                maintenance_exclusions=exclusions,
            )


def _exclusion(
    exclusion: MaintenanceExclusion,
) -> gcp.container.ClusterMaintenancePolicyMaintenanceExclusionArgs:
    return gcp.container.ClusterMaintenancePolicyMaintenanceExclusionArgs(
        exclusion_name=exclusion.name,
        start_time=exclusion.start,
        end_time=exclusion.end,
        exclusion_options=gcp.container.ClusterMaintenancePolicyMaintenanceExclusionExclusionOptionsArgs(
            scope=exclusion.scope.replace("-", "_").upper()
        ),
    )
