"""Every kind of client and call of the installed SDK versions. Missing versions are skipped with a message."""
