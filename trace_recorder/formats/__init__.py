"""Other tools' formats: what the package knows of a format, reading and writing side by side.

A format is a file or a folder with its record, `FORMAT`. In a folder, `reading.py` reads files of the tool, and
`writing.py` writes its form of a run. `foreign_runs/` has what all readers share: files, and the values of a run that
another tool recorded. `format_writer.py` and `left_out.py` have what all writers share. `own_members.py` of a folder
has the members that our writer adds to the format and our reader reads back. For spans, `spans/attribute_names/` has
all names that both sides know. The pages of `docs/views/` list what each format cannot carry.
"""
