"""Every shape of client of the installed SDK versions; missing versions are skipped with a message."""
