"""How much of a run's content is written: `tiers.py` states the tiers, the other files are the tier without texts."""
