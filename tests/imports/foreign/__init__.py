"""Files of other tools: made by us in the forms that these tools write, and where they are at hand, real ones."""
