"""Other processes: a program that does not use this package, replayed from its start to its end."""
