"""EKS clusters, their node groups, and Karpenter."""
