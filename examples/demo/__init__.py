"""The demo: a small real agent, through four real SDKs, recorded. Run it with `python -m examples.demo`."""
