"""What others use."""
