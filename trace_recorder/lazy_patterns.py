"""Regular expressions that are compiled when they are first used.

An agent's process compiles only the expressions that its texts and addresses need. To compile all of them when their
modules are imported would take longer than most of the rest of the first start. A test of the rules checks that no
module of the kernel compiles an expression at its import.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` returns, but compile the expression when one of its methods is first used.

    An invalid expression raises `re.error` only then.
    """
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))


class LazyPattern:
    """Has the attributes of a compiled expression, each from its first use on.

    Two threads may compile the same expression at the same time. Both then have equal results.
    """

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile the expression, and keep the attribute, so that this method is not called for it again."""
        value = getattr(re.compile(self.pattern, self._flags), name)
        self.__dict__[name] = value
        return value
