"""The wire formats of the local provider, one file each."""
