"""The functions and classes that users call: the recorder, the current recorder, the whole process, other processes."""
