"""Brings the nodes of a cell to active, one after the other, and says which one is not and why. No ROS in here.

A required node holds up all that come after it. Any other is waited for as well, but not for ever: the rest goes on
without it, and it follows when it can. A node that was started again is brought up again; one that somebody took out
of active on purpose is left as it is. Nothing is remembered here: a bring-up that was started again goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from robot_stack.types.errors import SpecError

PATIENCE_S = 20.0
"""A node that is not active after this long is spoken of, and passed over unless it is required."""
RETRY_S = 2.0
ANSWER_S = 10.0
"""A request that leads to nothing for this long counts as failed."""


class Stage(StrEnum):
    """A lifecycle stage of a managed node, in the words of lifecycle_msgs; DEACTIVATED is inactive after active."""

    UNCONFIGURED = "unconfigured"
    INACTIVE = "inactive"
    ACTIVE = "active"
    DEACTIVATED = "deactivated"
    FINALIZED = "finalized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A node's word on itself: its stage and, if a step failed, why."""

    stage: Stage
    reason: str = ""

    def to_text(self) -> str:
        """Write the node's word as text to be sent."""
        return f"{self.stage}: {self.reason}" if self.reason else str(self.stage)

    @classmethod
    def from_text(cls, text: str) -> Heard:
        """Parse text that `to_text` wrote.

        Raises:
            SpecError: If it names no stage.
        """
        stage, _, reason = text.partition(": ")
        if stage not in tuple(Stage):
            raise SpecError(f"stage is {stage!r}, must be one of {[each.value for each in Stage]}; update the sender")
        return cls(stage=Stage(stage), reason=reason)


STEPS = {Stage.UNCONFIGURED: "configure", Stage.INACTIVE: "activate"}
"""The transition that leads on from a stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A transition that a node is to make: "configure" or "activate"."""

    node: str
    transition: str


@dataclass(slots=True, kw_only=True)
class _Node:
    name: str
    required: bool
    heard: Heard | None = None
    begun_s: float | None = None
    asked_s: float | None = None
    retry_s: float = 0.0
    told: str = ""

    @property
    def active(self) -> bool:
        return self.heard is not None and self.heard.stage is Stage.ACTIVE

    @property
    def left_alone(self) -> bool:
        return self.heard is not None and self.heard.stage is Stage.DEACTIVATED

    def why(self) -> str:
        if self.heard is None:
            return "its process says nothing; read its log"
        if self.left_alone:
            return "somebody took it out of active; ros2 lifecycle set brings it back"
        return self.heard.reason or f"it is {self.heard.stage}"


class BringUp:
    """The bring-up of a cell's nodes: fed with what they say, and asked at a steady rate what to do next.

    Args:
        nodes: In the order in which they come up.
        required: Those that hold up all that follow.
    """

    def __init__(self, nodes: Sequence[str], required: Sequence[str]) -> None:
        self._nodes = {name: _Node(name=name, required=name in required) for name in nodes}
        self._words: list[str] = []
        self._started_s: float | None = None
        self._complete = False

    def heard(self, name: str, heard: Heard) -> None:
        """Take in the stage of a node; one that starts again is unconfigured again."""
        node = self._nodes[name]
        was, node.heard = node.heard, heard
        if was is None or was.stage is not heard.stage:
            node.asked_s = None
        left = was is not None and was.stage is Stage.ACTIVE and heard.stage is not Stage.ACTIVE
        if left:
            self._words.append(f"{name} is {heard.stage}" + (f": {heard.reason}" if heard.reason else ""))
            self._complete, self._started_s, node.begun_s, node.told = False, None, None, ""

    def answered(self, ask: Ask, *, success: bool, now_s: float) -> None:
        """Take in whether a node made the transition.

        What it reached it says itself; until then it is not asked again.
        """
        if not success:
            node = self._nodes[ask.node]
            node.asked_s, node.retry_s = None, now_s + RETRY_S

    def next(self, now_s: float) -> Ask | None:
        """Return the next transition to ask for, or None for now."""
        self._started_s = now_s if self._started_s is None else self._started_s
        for node in self._nodes.values():
            if node.active or (node.left_alone and not node.required):
                continue
            node.begun_s = now_s if node.begun_s is None else node.begun_s
            ask = self._step(node, now_s)
            if ask is not None:
                return ask
            late = now_s - node.begun_s > PATIENCE_S
            if late or node.left_alone or (node.heard is not None and node.heard.reason):
                self._tell(node)
            if node.required or not late:
                return None
        self._say_complete(now_s)
        return None

    def words(self) -> tuple[str, ...]:
        """Return the sentences for an operator since the previous call."""
        words, self._words = tuple(self._words), []
        return words

    def status(self) -> str:
        """Return "active", or which nodes are not and why."""
        missing = [f"{node.name} is not active: {node.why()}" for node in self._nodes.values() if not node.active]
        return "; ".join(missing) or "active"

    def _step(self, node: _Node, now_s: float) -> Ask | None:
        if node.asked_s is not None and now_s - node.asked_s < ANSWER_S:
            return None
        if node.heard is None or now_s < node.retry_s or node.heard.stage not in STEPS:
            return None
        node.asked_s = now_s
        return Ask(node=node.name, transition=STEPS[node.heard.stage])

    def _tell(self, node: _Node) -> None:
        sentence = f"{node.name} did not reach active: {node.why()}"
        if sentence != node.told:
            node.told = sentence
            self._words.append(sentence + ("; what comes after it waits" if node.required else ""))

    def _say_complete(self, now_s: float) -> None:
        if not self._complete and all(node.active for node in self._nodes.values()):
            assert self._started_s is not None
            self._complete = True
            self._words.append(f"all {len(self._nodes)} nodes are active after {now_s - self._started_s:.1f} s")
