"""Locks of a stack that a killed `pulumi` left: their holders, and whether those have ended."""
