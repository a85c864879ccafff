"""What the Pulumi engine starts: a language host for Python programs, and the scaffold that
provider plugins are built on.
"""
