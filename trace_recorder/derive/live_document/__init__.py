"""The live document: kept up to date with its journal while a run goes on, and written aside."""
