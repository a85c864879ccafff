"""Locks of a stack that a killed `pulumi` has left: whose they are, and whether that has ended."""
