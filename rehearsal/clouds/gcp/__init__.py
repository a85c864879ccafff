"""The simulated Google Cloud: Compute Engine, Kubernetes Engine and IAM."""
