"""The answers of the models in the recorded runs, and the results of their tools."""

from __future__ import annotations

import base64
import struct
import zlib

from tests.viewer_page.provider import Reply

REPORT = """## What went wrong

`parse_amount` cut the **cents** off. Three tests covered it:

| test | before | after |
|---|---:|---:|
| `test_cents` | 12 | 12.5 |
| `test_euro` | fails | passes |

```python
def parse_amount(text: str) -> Decimal:
    return Decimal(text.strip().removesuffix("EUR"))  # keeps the cents
```

1. I read the failing test.
2. I changed *one* function; see [the documentation](https://docs.python.org/3/library/decimal.html).
"""

SYSTEM = "You fix Python projects. Run the tests, read what they say, change as little as you can.\n" + "\n".join(
    f"Rule {n}: keep the public interface of module {n} as it is." for n in range(1, 31)
)

SOURCE = '''"""Amounts of money."""

from decimal import Decimal


def parse_amount(text: str) -> Decimal:
    """The amount that a text names."""
    return Decimal(int(text.split(".")[0]))
'''

OTHER_FIX = SOURCE.replace('int(text.split(".")[0])', "text")

FIXED = SOURCE.replace('Decimal(int(text.split(".")[0]))', 'Decimal(text.strip().removesuffix("EUR"))')

TEST_OUTPUT = "".join(f"tests/test_amounts.py::test_{n} PASSED\n" for n in range(1, 90)) + (
    "tests/test_amounts.py::test_cents FAILED\n\nE   AssertionError: assert Decimal('12') == Decimal('12.5')\n"
)


def failing(fixed: str) -> tuple[Reply, ...]:
    """Return the script of a task that takes nine calls, one of which is refused at first. `fixed` is the file
    that the model writes.
    """
    return (
        Reply(
            "Let me run the tests first.",
            [("run_tests", {"path": "tests", "verbose": True})],
            "The task names a failing test.",
        ),
        Reply("overloaded, try again", status=503),
        Reply(
            None, [("read_file", {"path": "amounts.py"}), ("read_file", {"path": "missing.py"})], "I need the source."
        ),
        Reply("A second pair of eyes helps here.", [("ask_reviewer", {"question": "Is Decimal(text) enough?"})]),
        Reply("I look at the callers.", [("search", {"pattern": "parse_amount"})]),
        Reply("Two callers pass a currency. **Decimal(text)** alone is not enough."),
        Reply(
            None,
            [("write_file", {"path": "amounts.py", "content": fixed})],
            "The fix keeps the cents and drops the unit.",
        ),
        Reply(None, [("run_tests", {"path": "tests", "verbose": False})]),
        Reply("The picture of the coverage is still to be looked at.", [("screenshot", {})]),
        Reply(REPORT),
    )


def png(width: int, height: int) -> str:
    """Return a picture of a gradient, as base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(
        b"\0" + bytes(v for x in range(width) for v in (x * 2 % 256, y * 3 % 256, 160)) for y in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


HOSTILE_TEXT = (
    '<script>document.title="executed"</script><img src=x onerror="document.title=\'executed\'">\n\n'
    "[click](javascript:document.title='executed') <javascript:alert(1)> [data](data:text/html,<script>1</script>)\n\n"
    "![tracker](http://127.0.0.1:9/pixel.png)\n\n"
    "</script><!-- \u2028\u2029 --> \x1b[31mred\x1b[0m \x1b]0;title\x07 "
    "\u202eesrever\u202c \u2066isolate\u2069 \x00 \x7f\n\n"
    "<style>body{display:none}</style><iframe srcdoc='x'></iframe>"
)
