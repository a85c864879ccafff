"""A GKE fleet is planned by the rules of the GKE API."""
