"""Logs of Inspect AI (https://inspect.aisi.org.uk). `log.py` is the format's module. Each sample of a log is a run."""
