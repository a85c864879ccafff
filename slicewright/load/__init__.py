"""Load on the servers of a workload: what is asked of them, by k6, and what came of it."""
