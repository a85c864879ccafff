"""What is no longer as declared: between program, state, cloud, silicon and the GPU operator."""
