"""Logs of Inspect AI (https://inspect.aisi.org.uk): `log.py` is the format's module, each sample of a log is a run."""
