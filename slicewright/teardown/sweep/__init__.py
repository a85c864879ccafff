"""Deletes the resources that a deleted cluster left in its cloud."""
