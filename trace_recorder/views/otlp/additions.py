"""Rewards and annotations that were added after their span was delivered, each as a separate span.

A delivered span cannot be changed. Until then, a reward is an event in the span of its step or run. Afterwards it is a
span `evaluate NAME` inside that span, with the same event. An annotation is a span `annotate KEY`. The id of each span
identifies the reward or annotation, so it is known whether it was delivered in either form.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from trace_recorder.views.otlp.made import SpanMaker
from trace_recorder.views.otlp.span import PARENT_CONTEXT
from trace_recorder.views.otlp.spans import PlannedSpan
from trace_recorder.views.otlp.tree import SpanTree, annotation_id, reward_id


def plan_additions(tree: SpanTree, maker: SpanMaker) -> Iterator[PlannedSpan]:
    """Yield a span for each reward and, with contents, for each annotation. Delivered ones are left out."""
    for number, (reward, span) in enumerate(zip(tree.trajectory.rewards, tree.spans_of_rewards(), strict=True)):
        identity = reward_id(tree.ids, number, reward)
        yield PlannedSpan(identity, "addition", True, partial(maker.reward, identity, span, reward))
    for key, value in tree.trajectory.annotations.items() if maker.content else ():
        if key != PARENT_CONTEXT:
            identity = annotation_id(tree.ids, key, value)
            yield PlannedSpan(identity, "addition", True, partial(maker.annotation, identity, tree.root, key))
