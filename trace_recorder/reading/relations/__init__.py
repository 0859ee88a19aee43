"""What each prompt of a run is to the earlier prompts of the run, and which call continues which."""
