"""Many runs as tables: Arrow, data frames, Parquet, SQL, and Ray Data for more than one machine."""
