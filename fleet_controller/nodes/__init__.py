"""The condition of each node, and the remedies of those that are stuck. Pure."""
