"""Pods that run as real processes: volumes, environment, addresses, and the status in the API."""
