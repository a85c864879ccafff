"""Load on the servers of a workload: which requests they get, and how they answered."""
