"""Images of containers: references to them, the simulated registries, and the kubelet's pulls."""
