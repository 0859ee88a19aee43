"""The demo: a small real agent through four real SDKs, recorded; run it with `python -m examples.demo`."""
