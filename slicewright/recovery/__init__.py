"""Creations that were cut off: what the cloud is asked, where an id does not follow from names."""
