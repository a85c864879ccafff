"""What the Pulumi engine starts: the Python language host and the provider plugins."""
