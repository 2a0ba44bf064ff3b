"""The faults: what is injected, what must happen, and within which time. The tests are in test_matrix_*.py."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fault; `bound_s` is None where the rule is no time, and `rule` says what it is."""

    fault: str
    then: str
    rule: str
    bound_s: float | None = None


def _within(ms: int, fault: str, then: str, rule: str = "") -> Row:
    return Row(fault=fault, then=then, rule=rule or f"{ms} ms", bound_s=ms / 1e3)


def _always(rule: str, fault: str, then: str) -> Row:
    return Row(fault=fault, then=then, rule=rule)


ROWS: dict[int, Row] = {
    1: _within(160, "policy killed, policy frozen", "HOLD, zero; neither fresh commands nor a restart end it"),
    2: _within(60, "safety process killed, frozen", "the robot's side stops the arm; the run ends; then DISARMED"),
    3: _within(120, "robot process killed", "HOLD by the age of its state; the run ends and names it"),
    4: _within(160, "teleop killed while it drives", "HOLD, not the policy; the deadman must be pressed anew"),
    5: _within(1000, "launcher killed", "every process ends, the arm is stopped"),
    6: _within(2000, "SIGTERM to the whole stack", "the last command at the robot is zero; exit code 0"),
    7: _within(310, "camera process killed", "HOLD; it comes back, the episode says so", "max_age + 160 ms"),
    8: _within(1260, "camera shows one frozen image", "the actor goes blind by name, HOLD", "1 s + 1 step + 160 ms"),
    9: _always("1 tick", "images 1 s late, from the future, unstamped", "refused, counted, no command from them"),
    10: _within(160, "/clock stands still", "watchdogs are steady: a silent policy is a HOLD all the same"),
    11: _always("1 message", "stamps 1 h off, 100 ms off", "refused; WARN, and arming is refused"),
    12: _always("1 message", "NaN, infinities, denormals, wrong length, wrong frame",
                "refused before any limit; three in a second are a HOLD"),
    13: _always("each tick", "over-speed, out of the box, from outside, limits of exactly 0.0",
                "clamped, counted, labelled; only the way back in passes"),
    14: _within(20, "soft force, hard force, no state in contact",
                "scaled down; HOLD with the push taken out; HOLD by age", "1 state + 1 tick"),
    15: _within(20, "stop by service, by wired button, by key, by a node that came late",
                "STOP, kept over a restart, cleared only by an operator"),
    16: _within(3000, "two policies, two safety processes", "the second is refused, HOLD; a successor may follow"),
    17: _always("each tick", "policy and operator at once, deadman toggled",
                "no tick mixes them; labels are what is sent"),
    18: _always("0 corrupt", "learner killed in the middle of a checkpoint, 100 times", "the one before loads, whole"),
    19: _within(3000, "link cut: black hole, reset, half open, 1 kB/s",
                "control goes on; steps wait on disk and arrive once"),
    20: _always("never applied", "params with NaN, of another shape, hash, version, or cut off",
                "refused; the old ones stay"),
    21: _within(160, "params an hour old", "said at half the limit; then the policy does not act, an operator may"),
    22: _always("1 flush", "disk full, folder read-only, no room at the start",
                "said; the episode is incomplete, control goes on; a start is refused"),
    23: _always("by name", "episode with a flipped bit, cut off, without metadata, half made",
                "set aside; the rest loads"),
    24: _within(160, "busy processor, a policy that stalls for 200 ms",
                "HOLD if it is late; the safety process keeps time"),
    25: _within(50, "command recorder frozen", "commands keep their rate", "largest gap 50 ms"),
    26: _within(5000, "best effort, wrong type, wrong namespace",
                "the topic and both sides are named; arming is refused"),
    27: _always("never set", "limits above the cap, negative, NaN, fixed; a typing error in a file",
                "refused in words"),
    28: _always("never let in", "no certificate, expired, of others, wrong token, token without TLS",
                "refused; nothing changes"),
    29: _within(20, "protective stop of the robot", "HOLD; the episode is cut short, resuming needs an operator",
                "1 state + 1 tick"),
    30: _always("0 violations, no growth", "60 s, a random process killed every 5 s",
                "all come back; the log proves safe"),
    31: _always("never armed", "keys 49 minutes old, unstamped, of strangers, sent twice, queued over a stall",
                "a HOLD stays a HOLD; stop and hold count all the same"),
    32: _always("0 motion", "gripper commanded by a stranger in POLICY, HOLD and STOP", "the gripper stays"),
    33: _within(30, "a second sender of the arm's state", "HOLD at once; what it says is never believed",
                "1 message + 2 ticks"),
    34: _within(300, "encoders that stand still with fresh stamps", "HOLD; check-log finds it by itself"),
    35: _within(300, "a driver that moves 2.5 times too fast", "HOLD; check-log finds it by itself"),
    36: _always("0 motion", "commands of strangers at the arm, at 100 m/s, with copied words, also while DISARMED",
                "refused by the last process before the driver; HOLD"),
    37: _within(560, "teleop device gone while the policy drives", "HOLD, as the cell's file says",
                "teleop_silence_s + 60 ms"),
    38: _always("never cleared", "one of two stop buttons pressed, the other says released; one dies",
                "STOP until each is released; a dead one is a HOLD"),
    39: _always("kept", "STOP on a full disk, then a restart", "STOP, from a file made beforehand"),
    40: _within(50, "200 participants join, leave, are killed", "no gap as long as the watchdog's period; no HOLD",
                "largest gap 50 ms"),
    41: _within(50, "messages of 7.6 MB and floods on every topic", "turned away as bytes; decisions keep their rate",
                "largest gap 50 ms"),
    42: _always("0 motion in HOLD and STOP, none outside",
                "100,000 replayed, stale, foreign, oversized, malformed messages on every topic of the safety path",
                "nothing moves but what the filter decided"),
}  # fmt: skip


@dataclass(slots=True)
class Measured:
    """What the test of a row saw; asserts the bound."""

    number: int
    seconds: float | None = None
    words: list[str] = field(default_factory=list)

    def took(self, seconds: float) -> None:
        """One injection was safe after this long; the longest is kept."""
        bound_s = ROWS[self.number].bound_s
        assert bound_s is not None
        assert seconds <= bound_s, f"safe after {seconds * 1e3:.0f} ms, must be within {bound_s * 1e3:.0f} ms"
        self.seconds = max(seconds, self.seconds or 0.0)

    def saw(self, words: str) -> None:
        """A figure that is no time."""
        self.words.append(words)

    def text(self) -> str:
        """For the table."""
        times = [] if self.seconds is None else [f"{self.seconds * 1e3:.0f} ms"]
        return "; ".join([*times, *self.words])
