"""Pi's sessions and the session traces of the Hub."""
