"""Runs that a service keeps. Its own client fetches the traces, which are read like the service's exports."""
