"""The kubelet stand-in: one process that is the kubelet of all simulated nodes."""
