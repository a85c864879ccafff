"""The rollout of a new layout or driver to the nodes of a pool. Pure."""
