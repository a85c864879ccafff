"""The subnets of an EKS cluster: those of a new VPC, and existing ones."""
