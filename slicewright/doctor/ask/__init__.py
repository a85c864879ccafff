"""Asks clouds, clusters and registries."""
