"""Machine types, regions and prices are looked up in the catalog."""
