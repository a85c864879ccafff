"""One simulated cluster: control plane, kubelet stand-in, nodes, GPU operator, fake GPUs."""
