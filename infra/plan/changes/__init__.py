"""A change between two plans keeps the nodes, or rolls or replaces them."""
