"""The simulated AWS: EC2, EKS and IAM."""
