"""Runs that are kept by a service: what its own client lists and sends is read as the service's exports are."""
