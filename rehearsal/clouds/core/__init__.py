"""What the simulated AWS and the simulated Google Cloud share. It knows neither."""
