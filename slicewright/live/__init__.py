"""Reads the state of pools in a running cluster, and sends requests to their rollouts."""
