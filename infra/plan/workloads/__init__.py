"""Workloads that serve models are planned against the pools that they run on."""
