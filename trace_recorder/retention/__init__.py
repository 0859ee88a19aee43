"""What happens to runs after their end: which of them are deleted, and how long they are kept at least."""
