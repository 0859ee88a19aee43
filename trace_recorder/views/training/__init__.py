"""Training: rows for fine-tuning, one row a branch."""
