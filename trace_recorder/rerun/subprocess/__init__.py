"""Outside: a program that knows nothing of this package, replayed from its start to its end."""
