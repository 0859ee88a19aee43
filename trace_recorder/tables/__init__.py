"""Makes tables of many runs: Arrow, data frames, Parquet, SQL, and Ray Data for more than one machine."""
