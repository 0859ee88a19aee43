"""The models of two runs compared.

Runs of two models are compared to see what the models did, so that another name is no difference in itself: where one
model takes the place of another throughout, the steps are not said to differ. Where that is not so, as in a run that
changed its model on the way, each step with another model differs.
"""

from __future__ import annotations

from collections.abc import Collection

Model = str | None
Pair = tuple[Model, Model]


def are_renamed(pairs: Collection[Pair]) -> bool:
    """Whether each model of the one run is always paired with the same model of the other, and no two with one."""
    distinct = {*pairs}
    return len({one for one, _ in distinct}) == len(distinct) == len({other for _, other in distinct})
