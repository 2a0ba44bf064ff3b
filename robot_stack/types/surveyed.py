"""Findings on a ROS domain and at a serial port, as who looks there prints them and the set-up page reads them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedImages:
    """A topic with images.

    Attributes:
        topic: Its name.
        compressed: Whether its messages are files, JPEG or PNG.
        size_px: Columns and rows of an image; None if none came.
        jpeg: An image as a JPEG, in base64; "" if none came.
        problem: Why there is no picture, with what to do; "" if there is one.
    """

    topic: str
    compressed: bool
    size_px: tuple[int, int] | None = None
    jpeg: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """What was seen on a ROS domain.

    Attributes:
        joints: Topic of joint states -> names in them.
        robot: Name in the robot's description; "" without one.
        descriptions: Topic -> a robot's description, a URDF; one that is too long is left out.
        angles: Topic of joint states -> joint -> rad, or m of one that slides, as it was heard last; those that are no
            numbers are left out.
        moving: Topic of joint states -> joints that moved while they were listened to.
        images: Topics with images.
        left_out: Number of topics with images that were not listened to, because there were too many.
        commanded: Topics of commands that a controller listens to, by their types.
    """

    joints: dict[str, list[str]]
    robot: str
    images: list[SurveyedImages]
    left_out: int = 0
    commanded: dict[str, str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    angles: dict[str, dict[str, float]] = field(default_factory=dict)
    moving: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedServo:
    """A servo that answered.

    Attributes:
        ticks: Where it stands.
        stored: Homing offset, lowest and highest tick, as it keeps them since it was calibrated; None if it has not
            answered that.
    """

    ticks: int
    stored: tuple[int, int, int] | None = None
