"""The status of each pool. Pure."""
