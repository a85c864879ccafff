"""Pools, nodes, reports and pods, as the controller reads them. Pure."""
