"""Coding agents that the proxy knows: how each is made to use the proxy, and where each login's requests go."""
