"""Options that several commands share: the stack file, the cluster, and ranges of numbers."""
