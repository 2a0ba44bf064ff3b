"""The request to a simulator before an episode: a seed and up to two words, as text."""

from __future__ import annotations

from dataclasses import dataclass

from robot_stack.types.errors import SpecError

_BACK, _AS_IT_IS = "back", "as_it_is"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """A request to the simulator for the start of an episode.

    Attributes:
        seed: Of what is drawn.
        backward: The way back begins.
        scene: The objects are put back; else they stay, and so do the arms.
    """

    seed: int
    backward: bool = False
    scene: bool = True

    def to_text(self) -> str:
        """Write the request as it is sent on reset/request: `12`, or `12 back as_it_is`."""
        words = [str(self.seed)]
        words += [_BACK] if self.backward else []
        words += [] if self.scene else [_AS_IT_IS]
        return " ".join(words)

    @classmethod
    def from_text(cls, text: str) -> ResetRequest:
        """Parse a request, the inverse of `to_text`.

        Raises:
            SpecError: If the text is none.
        """
        seed, *words = text.split() or [""]
        if not seed.isdecimal() or not set(words) <= {_BACK, _AS_IT_IS}:
            raise SpecError(
                f"reset request is {text!r}, must be a seed, then {_BACK} or {_AS_IT_IS}; update the sender"
            )
        return cls(seed=int(seed), backward=_BACK in words, scene=_AS_IT_IS not in words)
