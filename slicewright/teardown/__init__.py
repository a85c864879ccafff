"""Takes a stack down to nothing: its dependants, the order of deletion, and the leftovers."""
