"""Pi's sessions, and the session traces of the Hugging Face Hub, which have Pi's form or a simpler one."""
