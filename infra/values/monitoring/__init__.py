"""What a fleet's metrics need, as plain data: chart values, monitors, rules and dashboards."""

from infra.values.monitoring.chart import monitoring_chart, monitoring_values
from infra.values.monitoring.objects import OPERATOR_GROUP, OPERATOR_KINDS, monitoring_objects

__all__ = [
    "OPERATOR_GROUP",
    "OPERATOR_KINDS",
    "monitoring_chart",
    "monitoring_objects",
    "monitoring_values",
]
