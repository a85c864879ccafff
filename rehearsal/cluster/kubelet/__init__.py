"""The kubelet stand-in: one process that is the kubelet of every simulated node of one cluster."""
