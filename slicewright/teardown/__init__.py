"""Taking a stack down to nothing: what hangs on it, in which order it goes, and what is left."""
