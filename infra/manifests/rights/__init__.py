"""The rights that a stack needs in AWS, Google Cloud and Kubernetes."""
