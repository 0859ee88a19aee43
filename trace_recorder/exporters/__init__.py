"""Sends runs to the tools of a team: during the run, and afterwards the spans that did not arrive."""
