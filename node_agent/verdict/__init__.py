"""Whether a node is what its pool declares, and the reasons that it can be given."""
