"""The small project that the agent is asked to fix: two modules with a mistake each, and tests that find both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.demo.tools import Toolbox

if TYPE_CHECKING:
    from pathlib import Path

TASK = "The tests of this project fail. Find out why, mend the code without touching the tests, and prove it."

FILES = {
    "README.md": "# Basket\n\nAdds up what is in a shopping basket, and takes the discount off.\n",
    "basket.py": '''"""A shopping basket: lines of (name, price, count)."""


def subtotal(lines):
    """The price of everything in the basket, before any discount."""
    total = 0
    for index in range(len(lines) + 1):
        _name, price, count = lines[index]
        total += price * count
    return total
''',
    "discount.py": '''"""Discounts, in percent."""


def discounted(price, percent):
    """What is left to pay of a price when so many percent are taken off."""
    return price * percent / 100
''',
    "test_basket.py": '''"""What the shop relies on."""

import unittest

from basket import subtotal
from discount import discounted


class BasketTest(unittest.TestCase):
    def test_every_line_counts(self):
        self.assertEqual(subtotal([("pear", 30, 4), ("plum", 10, 5)]), 170)

    def test_a_discount_is_taken_off(self):
        self.assertEqual(discounted(200, 25), 150)


if __name__ == "__main__":
    unittest.main()
''',
}


def create(root: Path) -> None:
    """Write the project, with its mistakes, into an empty directory."""
    for name, content in FILES.items():
        (root / name).write_text(content, encoding="utf-8")


def tests_pass(root: Path) -> bool:
    """Return whether the original tests pass now. The agent's own claim does not count."""
    (root / "test_basket.py").write_text(FILES["test_basket.py"], encoding="utf-8")
    return Toolbox(root).run("run_python", {"path": "test_basket.py"}).text.startswith("exit code 0")
