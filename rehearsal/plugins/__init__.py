"""What the Pulumi engine starts: the language host and the provider plugins."""
