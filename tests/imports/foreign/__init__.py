"""Files of other tools: our own files in the forms that these tools write, and real files, if they are present."""
