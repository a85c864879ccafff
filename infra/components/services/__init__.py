"""Workloads, and the services that observe and scale them."""
