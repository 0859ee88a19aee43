"""Every shape of client of whichever SDK versions are installed; what is missing is skipped, and said."""
