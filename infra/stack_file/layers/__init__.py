"""Merges the fleet of a stack file with the base files that its key `extends` names."""
