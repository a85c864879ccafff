"""The simulated EKS.

`service` is its API; `clusters`, `node_groups`, `addons` and `updates` hold the operations,
`checks` what EKS refuses, `nodes` the nodes that a node group makes.
"""
