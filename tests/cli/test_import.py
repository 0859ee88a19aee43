"""The command `import`."""

from __future__ import annotations
