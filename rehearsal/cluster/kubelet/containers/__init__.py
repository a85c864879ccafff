"""A container of a pod: what it runs, its environment, its probes, and its restarts."""
