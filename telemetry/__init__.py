"""What each of our programs tells of itself: health endpoints, log lines, Prometheus text."""
