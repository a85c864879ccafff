"""The keys of EKS clusters and their node pools."""
