"""The GPU operator's settings, driver and device plugin are checked against the catalog."""
