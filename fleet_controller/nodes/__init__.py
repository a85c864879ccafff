"""The condition of each node, and the remedies for stuck nodes. Pure."""
