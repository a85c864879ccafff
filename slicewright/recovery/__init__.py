"""Creations that were cut off: questions to the cloud if an ID does not follow from names."""
