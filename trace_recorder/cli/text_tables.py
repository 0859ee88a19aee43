"""Lays out tables of texts for a terminal of any width, or for a pipe.

A table that is too wide either becomes several tables with some of its rows as columns, or gets shorter names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from trace_recorder.cli.text_layout import in_one_line

MIN_NAME = 12
"""If a table is too wide, its names are cut, but keep at least this many characters."""
LABEL_WIDTH = 8
"""The width of the label of a line above the tables. The rest of the line is wrapped next to the label."""
_GAP = 2

TextRow = Sequence[str]


def wrapped_line(line: str, width: int | None) -> Iterator[str]:
    """Yield a labelled line, in as many lines as it needs."""
    text = in_one_line(line)
    if width is None or len(text) <= width:
        yield text
    else:
        size = max(width, MIN_NAME + LABEL_WIDTH)
        yield from wrap(text, size, subsequent_indent=" " * LABEL_WIDTH, break_on_hyphens=False)


def table_lines(rows: Sequence[TextRow], width: int | None, *, side_by_side: bool = False) -> Iterator[str]:
    """Yield an empty line and the aligned rows, or nothing if the table has only titles."""
    cells = [[in_one_line(cell) for cell in row] for row in rows]
    if len(cells) == 1:
        return
    if width is None or _width(cells) <= width:
        yield from ("", *_aligned(cells))
        return
    if side_by_side:
        for block in _blocks([*zip(*cells, strict=True)], width):
            yield from ("", *_aligned(block))
        return
    name_size = max(len(row[0]) for row in cells) - (_width(cells) - width)
    name_size = max(MIN_NAME, name_size)
    yield from ("", *_aligned([[cut_name(row[0], name_size), *row[1:]] for row in cells]))


def _blocks(columns: Sequence[TextRow], width: int) -> Iterator[list[TextRow]]:
    """Divide a table into tables that fit. Each table has the titles and at least one column."""
    titles = [row[0] for row in columns]
    room = width - max(map(len, titles))
    block: list[TextRow] = []
    for column in [*zip(*columns, strict=True)][1:]:
        whole = [cut_name(cell, max(MIN_NAME, room - _GAP)) for cell in column]
        if block and _width([*zip(titles, *block, whole, strict=True)]) > width:
            yield [*zip(titles, *block, strict=True)]
            block = []
        block.append(whole)
    yield [*zip(titles, *block, strict=True)]


def _widths(rows: Sequence[TextRow]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _width(rows: Sequence[TextRow]) -> int:
    return sum(size + _GAP for size in _widths(rows)) - _GAP


def _aligned(rows: Sequence[TextRow]) -> Iterator[str]:
    """Yield each row as a line with aligned cells: the first column on the left, the others on the right."""
    widths = _widths(rows)
    for first, *others in rows:
        aligned = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield (" " * _GAP).join([first.ljust(widths[0]), *aligned]).rstrip()


def cut_name(cell: str, size: int) -> str:
    """Cut a name that has more than `size` characters."""
    if len(cell) <= size:
        return cell
    return f"{cell[: size - 3]}..."
