"""A hundred thousand hostile messages against the real filter, with the checker as the oracle."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.control.audit.replay_checker import check_log
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.types.command import Mode
from robot_stack.types.pose import Pose
from tests.control.filter_rig import MS, TICK_NS, Rig

FULL, SHORT = 100_000, 10_000
"""Commands in `make faults`, and in `make test`."""
ROUND = 500
"""After so many the arm starts elsewhere, every other time outside the box."""
LIMITS = SafetyLimits(box_min_m=(-0.2, 0.0, -0.1), box_max_m=(0.0, 0.2, 0.0), max_jerk_m_s3=300.0)
"""Three of its walls are at exactly 0.0."""
NAN, INF, DENORMAL = float("nan"), float("inf"), 5e-324
KINDS = ("good", "jump", "nan", "inf", "denormal", "huge", "zero", "length", "shape", "frame", "arm", "old", "future",
         "unset", "gripper", "list")  # fmt: skip
WEIGHTS = np.array([8, 8] + [1] * (len(KINDS) - 2)) / (16 + len(KINDS) - 2)


def hostile_run(count: int | None = None) -> str:
    """Throws them; fails if one reaches the robot in violation, or stops the filter. Says how many of which."""
    count = (FULL if "FAULTS_JSON" in os.environ else SHORT) if count is None else count
    rng = np.random.default_rng(12)
    kinds = rng.choice(KINDS, size=count, p=WEIGHTS)
    twists = rng.normal(size=(count, 6)) * rng.choice([0.01, 0.1, 1.0, 50.0], size=(count, 1))
    rig, thrown, passed = Rig(LIMITS), Counter(), 0
    for number, (kind, twist) in enumerate(zip(kinds, twists)):
        if number % ROUND == 0:
            _elsewhere(rig, rng, outside=number // ROUND % 2 == 1)
        thrown[str(kind)] += 1
        refusal = _throw(rig, str(kind), twist, rng)
        passed += refusal is None
        assert (refusal is None) == (kind in ("good", "jump", "denormal", "zero")), kind
        rig.tick()
        if rig.filter.mode is Mode.HOLD:
            rig.filter.resume(rig.now_ns)
    broken = check_log(rig.log, LIMITS)
    assert broken == [], broken[:3]
    moved = sum(bool(tick.decision.command.twist.any()) for tick in rig.log)
    assert moved > count / 4  # it was driving, not holding
    return f"{count:,} commands, {count - passed:,} refused, 0 in violation"


def _elsewhere(rig: Rig, rng: np.random.Generator, *, outside: bool) -> None:
    """A reset: the arm rests at another place, and an operator starts the next episode."""
    rig.filter.end_episode()
    for _ in range(30):
        rig.tick()
    low, high = np.array(LIMITS.box_min_m), np.array(LIMITS.box_max_m)
    position = rng.uniform(low + 0.01, high - 0.01)
    if outside:
        position[rng.integers(3)] += rng.choice([-0.4, 0.4])
    tilt = Rotation.from_rotvec(rng.normal(size=3) * 0.1)
    rig.pose = Pose.from_rotation(position, tilt * Rotation.from_quat([1.0, 0.0, 0.0, 0.0]))
    rig.tick()
    for step in (rig.filter.resume, rig.filter.arm, rig.filter.start):
        step(rig.now_ns)
    assert rig.filter.mode is Mode.POLICY, rig.filter.reason


def _throw(rig: Rig, kind: str, twist: np.ndarray, rng: np.random.Generator) -> str:
    """One message; why it was refused."""
    now_ns = rig.now_ns + TICK_NS // 2
    where = rng.integers(6)
    fields: dict[str, object] = {"stamp_ns": now_ns}
    sent: object = np.clip(twist, -90.0, 90.0)
    if kind in ("nan", "inf", "denormal", "huge"):
        sent = twist.copy()
        sent[where] = {"nan": NAN, "inf": -INF, "denormal": DENORMAL, "huge": 1e300}[kind]  # type: ignore[index]
        if kind == "denormal":
            sent = np.clip(sent, -90.0, 90.0)
    elif kind == "zero":
        sent = np.zeros(6)
    elif kind == "good":
        sent = np.clip(twist, -0.1, 0.1)
    elif kind in ("length", "shape", "list"):
        sent = {"length": twist[: 1 + where % 5], "shape": twist[:, None], "list": list(twist)}[kind]
    elif kind == "frame":
        fields["frame"] = ("", "world", "TCP", "base_link")[where % 4]
    elif kind == "arm":
        fields["arm"] = "left"
    elif kind in ("old", "future", "unset"):
        fields["stamp_ns"] = {"old": now_ns - 200 * MS, "future": now_ns + 3600 * 1000 * MS, "unset": 0}[kind]
    elif kind == "gripper":
        fields["gripper"] = (NAN, -0.5, 2.0)[where % 3]
    return rig.filter.offer([rig.command(sent, **fields)], now_ns)  # type: ignore[arg-type]
