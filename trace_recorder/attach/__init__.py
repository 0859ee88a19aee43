"""The functions and classes that users call to record a client, the whole process, or another program."""
