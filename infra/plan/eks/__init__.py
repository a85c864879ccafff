"""An EKS fleet is planned by the rules of the EKS and EC2 APIs."""
