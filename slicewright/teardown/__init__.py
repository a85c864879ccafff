"""Taking a stack down to nothing: what depends on it, in which order it goes, and what is left."""
