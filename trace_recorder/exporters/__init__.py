"""Runs sent on to where a team looks at them: live, while a run goes on, and afterwards what did not arrive."""
