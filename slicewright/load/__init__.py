"""Sends load to the servers of a workload, and measures their answers."""
