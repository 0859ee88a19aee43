"""The names of attributes that both the writer and the readers of spans know, a module for each convention."""
