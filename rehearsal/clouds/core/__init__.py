"""What the simulated AWS and the simulated Google Cloud have in common."""
