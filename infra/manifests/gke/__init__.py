"""GKE's own objects, and the fitness of existing GKE clusters."""
