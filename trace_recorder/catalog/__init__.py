"""Many runs: values of each run, a query language, and an index that answers queries without reading the runs."""
