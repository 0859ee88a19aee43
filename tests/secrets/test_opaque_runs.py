"""Secrets near and in long base64: the middle of an image is not searched, and still no secret is missed."""

from __future__ import annotations

import base64
import json
from random import Random

import pytest

from tests.searching import IS_SEARCH
from tests.secrets.corpus import keys
from trace_recorder.storage.redaction.first_look import KEPT, searched_parts
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor, mask_text

IMAGE = base64.b64encode(Random(3).randbytes(60_000)).decode()
NUMBERS = ", ".join(str(Random(3).gauss(0, 0.02)) for _ in range(4_000))
KEY = "opaque0Key1of2the3user4"
KINDS = list({(key.service, key.mask): key for key in keys(1)}.values())
BETWEEN = [" ", "\n", ",", "; "]


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("size", [9_000, 32_768, 80_000])
def test_a_secret_before_or_after_an_image_is_masked(size: int, between: str) -> None:
    """Each kind of secret that is masked by its form is masked right before and right after an image too.

    Each is tried with images of every size. With the large images, one separator is tried for each kind, and all kinds
    are searched together.
    """
    image = IMAGE[:size]
    few = size > 9_000 and not IS_SEARCH
    missed = [
        key.service
        for key in (KINDS[BETWEEN.index(between) :: len(BETWEEN)] if few else KINDS)
        if key.longest not in mask_text(f"x{between}{key.text}{between}x")
        for text in (f"{key.text}{between}{image}", f"{image}{between}{key.text}{between}x")
        if key.longest in mask_text(text)
    ]

    assert missed == []


@pytest.mark.parametrize("size", [0, 4_095, 8_191, 8_192, 9_000, 70_000])
@pytest.mark.parametrize("opaque", [IMAGE, NUMBERS], ids=["image", "numbers"])
def test_the_ends_of_an_opaque_part_are_searched(size: int, opaque: str) -> None:
    """Everything around an opaque part is searched, and at least both ends of the part."""
    text = f"begin {opaque[:size]} middle~ {opaque[:size]}= end"
    spans = list(searched_parts(text))
    searched = {at for start, end in spans for at in range(start, end)}

    assert (spans[0][0], spans[-1][1]) == (0, len(text))
    for start in (6, 6 + size + 9):
        around = {*range(start - 6, start + min(size, KEPT - 2)), *range(start + max(0, size - KEPT + 2), start + size)}
        assert around <= searched
    assert size < 12_000 or len(searched) < 12 * KEPT


@pytest.mark.parametrize("place", [0, 30_000, 79_000])
@pytest.mark.parametrize("spelled", [KEY, base64.b64encode(b"12" + KEY.encode()).decode()])
def test_a_known_value_in_the_middle_of_an_image_is_masked(spelled: str, place: int) -> None:
    """A known secret is found anywhere in base64, where no other pattern searches."""
    redaction = Redaction(default_redactor, {"A_TOKEN": KEY})
    text = json.dumps({"url": f"data:image/png;base64,{IMAGE[:place]}{spelled}{IMAGE[place:]}"})

    masked, count = redaction.mask(text)

    assert count == 1
    assert KEY not in masked
    assert spelled[8:20] not in masked
    assert redaction.mask(masked) == (masked, 0)


def test_an_image_is_not_changed() -> None:
    """Masking an image returns the same image."""
    assert Redaction(default_redactor, {"A_TOKEN": KEY}).mask(f'"{IMAGE}"') == (f'"{IMAGE}"', 0)
