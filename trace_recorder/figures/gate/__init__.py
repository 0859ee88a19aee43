"""The gate: rules for a run, and the comparison of live runs with good ones."""
