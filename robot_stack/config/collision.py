"""The shapes watched beside the TCP: the parts of an arm as capsules, and what of the cell they keep clear of."""

from __future__ import annotations

from itertools import product
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.files.explain import PlacedError
from robot_stack.config.section import Name, Section, check_names

Coordinate = Annotated[float, Field(ge=-5, le=5)]
Near = Annotated[float, Field(ge=-2, le=2)]
Radius = Annotated[float, Field(gt=0, le=0.5)]


class LinkCapsule(Section):
    """A capsule of a link: all points within a radius of a line that is fixed to it."""

    name: Name
    """Of the part, for messages."""
    link: Annotated[int, Field(ge=0, le=16)]
    """0 is the base, i the link that joint i moves."""
    from_m: tuple[Near, Near, Near]
    """One end of the line, in the frame of that joint: of a URDF its child link's, of a modified table frame i, of a
    standard table frame i - 1 turned by the joint's angle; of link 0 the base frame."""
    to_m: tuple[Near, Near, Near]
    """The other end."""
    radius_m: Radius
    """Of the capsule."""


class CollisionConfig(Section):
    """The parts of an arm with its hand, as capsules that are watched."""

    margin_m: Annotated[float, Field(ge=0, le=0.2)] = 0.02
    """Distance that is kept from everything watched; the calibration of the cell is no better than that."""
    capsules: Annotated[tuple[LinkCapsule, ...], Field(min_length=1, max_length=32)]
    """From base to hand. `python -m robot_stack.workcell.capsules` makes them from a URDF or MJCF."""
    unwatched: tuple[tuple[Name, Name], ...] = ()
    """Pairs of capsules that are never watched against each other, because they cannot meet or always do."""

    @field_validator("capsules")
    @classmethod
    def _unique_names(cls, capsules: tuple[LinkCapsule, ...]) -> tuple[LinkCapsule, ...]:
        check_names([capsule.name for capsule in capsules], "names of capsules")
        return capsules

    @field_validator("unwatched")
    @classmethod
    def _known_names(cls, pairs: tuple[tuple[str, str], ...], info: ValidationInfo) -> tuple[tuple[str, str], ...]:
        names = [capsule.name for capsule in info.data.get("capsules", ())]
        for (row, pair), column in product(enumerate(pairs), (0, 1)):
            if names and pair[column] not in names:
                text = f"unwatched names {pair[column]!r}, must be one of {names}; correct it"
                raise PlacedError(text, row, column)
        return pairs


class Region(Section):
    """A box along the axes of the cell."""

    min_m: tuple[Coordinate, Coordinate, Coordinate]
    """Lowest corner: x, y, z."""
    max_m: tuple[Coordinate, Coordinate, Coordinate]
    """Highest corner: x, y, z."""

    @field_validator("max_m")
    @classmethod
    def _above_lowest_corner(
        cls, upper: tuple[float, float, float], info: ValidationInfo
    ) -> tuple[float, float, float]:
        for axis, low, high in zip("xyz", info.data.get("min_m", ()), upper):
            if high <= low:
                raise ValueError(f"max_m is {high} in {axis}, must be above min_m ({low}); swap or correct them")
        return upper


class Surroundings(Section):
    """The surroundings that the parts of every arm keep clear of, in the frame of the cell.

    With one arm that is its base frame.
    """

    table_z_m: Coordinate | None = None
    """Height of the table's top, which no part but the base goes below; left out, no table is watched."""
    walls: Region | None = None
    """Box that no part but the base leaves; left out, there are no walls. The workspace is that of the TCP alone."""
    keep_out: Annotated[dict[Name, Region], Field(max_length=8)] = Field(default_factory=dict)
    """Boxes by name in which no part may be."""


class HeldPart(Section):
    """A part that an arm holds all the time, as a capsule in the frame of its TCP."""

    from_m: tuple[Near, Near, Near]
    """One end of its line."""
    to_m: tuple[Near, Near, Near]
    """The other end."""
    radius_m: Radius
    """Of the capsule."""
