"""User data, autoscalers and IAM policies of EKS clusters."""
