"""The document of a run: written whole from its journal, during the run and at its end."""
