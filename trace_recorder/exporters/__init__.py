"""Sends runs to the tools in which a team looks at them: live, and afterwards what did not arrive."""
