"""A proxy on this machine that records the LLM calls of any program: `trace-recorder proxy`."""
