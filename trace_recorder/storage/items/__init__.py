"""Items: a part of requests that is sent repeatedly is stored once, and expanded when it is read."""
