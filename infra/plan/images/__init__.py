"""A stack's pods run images, whose registries have limits."""
