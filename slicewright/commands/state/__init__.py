"""Commands about the state that Pulumi keeps of a stack, and its lock."""
