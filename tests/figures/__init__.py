"""What people and formats ask of a run."""
