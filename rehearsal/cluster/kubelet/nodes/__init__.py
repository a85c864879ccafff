"""Simulated nodes: their files, GPUs and status, their reboots, and the layout fault."""
