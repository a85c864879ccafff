"""How a new layout or driver reaches the nodes of a pool. Pure."""
