"""Stands between a client and an MCP server over stdio, passes every byte on, and records the messages."""
