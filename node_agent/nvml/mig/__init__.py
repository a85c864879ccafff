"""Reads MIG mode, profiles and instances of a GPU by NVML."""
