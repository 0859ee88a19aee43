"""Other tools' formats: what the package knows of a format, reading and writing side by side.

A format is a file with its record, `FORMAT`, or a folder with its records in `format.py`. In a folder, `reading.py`
reads files of the tool, and `writing.py` writes its form of a run, where the format has one file for each.
`own_members.py` has the members that our writer adds to the format and our reader reads back. For spans,
`spans/attribute_names/` has all names that both sides know. The pages of `docs/views/` list what each format cannot
carry.

These files are no formats:

- `format.py` has the classes of the records, and `format_writer.py` has views. `recognition.py` finds a file's format
- `any_file.py` has `load`. `imported_runs.py` writes journals, also from services (`trace_services.py`)
- `foreign_runs/` has what readers share, and `left_out.py` and `shared_document.py` have what writers share
"""
