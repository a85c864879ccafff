"""What a fleet's metrics need, as plain data: chart values, monitors, rules and dashboards."""

from infra.values.monitoring.chart import monitoring_chart, monitoring_values

__all__ = ["monitoring_chart", "monitoring_values"]
