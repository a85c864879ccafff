"""NVIDIA's mig-manager, device plugin and feature discovery as pure functions of a node's state.

For machines that cannot run the programs themselves, and for fleets of hundreds of nodes in one
process. What they do is held to recordings of the real programs
(tests/rehearsal/cluster/gpu_operator/simulation). Not simulated: MPS, the daemon of DCGM, host
services that mig-manager stops, and how long a step takes.
"""
