"""The decision of a pass over all pools, and the actions that it lists. Pure."""
