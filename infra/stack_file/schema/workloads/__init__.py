"""The keys of workloads, by kind."""
