"""The keys of GKE clusters and their node pools."""
