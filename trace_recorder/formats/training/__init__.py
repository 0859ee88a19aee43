"""Training: rows for fine-tuning, one row for each branch of a run."""
