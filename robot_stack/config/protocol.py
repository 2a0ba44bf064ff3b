"""The model of training.protocol: how much help an operator gives, by need."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from robot_stack.config.section import Section


class ProtocolConfig(Section):
    """The graded protocol of help: none, demonstrations at failures, return and explore, human-guided exploration."""

    max_level: Annotated[int, Field(ge=0, le=3)] = 0
    """Highest level that may be reached; 0 leaves only the correction of single motions."""
    window: Annotated[int, Field(ge=2, le=1000)] = 10
    """Newest episodes from the usual start that are looked at before the level rises."""
    below: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of them that succeeded alone under which it rises."""
    demos: Annotated[int, Field(ge=1, le=100)] = 3
    """Level 1: demonstrations asked for, at the starts that failed last."""
    return_share: Annotated[float, Field(gt=0, le=0.5)] = 0.4
    """Level 2: share of episodes that start where the policy succeeds sometimes."""
    lowest: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Level 2: a start is too hard under this share of successes."""
    highest: Annotated[float, Field(ge=0, le=1)] = 0.6
    """Level 2: and too easy above this one."""
    tries: Annotated[int, Field(ge=2, le=100)] = 5
    """Level 3: failures at a start without a success before an operator demonstrates from it."""
