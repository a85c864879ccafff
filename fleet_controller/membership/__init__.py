"""The nodes of each pool, and how nodes join and leave it. Pure."""
