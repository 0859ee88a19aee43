"""The live document: the journal so far as a JSON document, kept up to date while the run goes on."""
