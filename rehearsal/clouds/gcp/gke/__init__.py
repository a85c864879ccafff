"""The simulated Kubernetes Engine.

`service` is its API; `clusters`, `node_pools` and `operations` hold the methods, `checks` what GKE
refuses, `defaults` what it fills in, `nodes` the nodes that a pool makes, `addons` what GKE itself
runs in a cluster.
"""
