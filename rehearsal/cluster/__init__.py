"""One simulated cluster: a real control plane, the kubelet stand-in, nodes, the GPU operator and
the fake GPUs.
"""
