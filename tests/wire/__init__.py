"""Recorded traffic of real providers, sent again through the real SDKs, with and without a recorder."""
