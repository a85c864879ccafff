"""The error of a catalog that contradicts itself."""


class CatalogError(Exception):
    """The catalog is inconsistent: a bug of slicewright, not a problem of a stack file."""
