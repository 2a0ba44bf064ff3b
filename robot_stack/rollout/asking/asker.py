"""The part of an actor that asks for help: signals in, at most one open request out, evidence kept for the next time.

An episode falls into stretches in which the policy has the arm. A stretch that an operator ends by moving the arm, or
that ends badly, is a moment at which help was needed; one that ends well without any help, or at the verdict of an
operator who looked and let the policy go on, is one where it was not. One in which the base policy led the arm, as
nobody answered, and that ends well says neither.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

from robot_stack.config.asking import AskingConfig
from robot_stack.rollout.asking.account import AskedHelp, HelpAccount
from robot_stack.rollout.asking.calibrator import Calibrator, Judgement
from robot_stack.rollout.asking.distance import Distance
from robot_stack.rollout.asking.incident import Incident
from robot_stack.rollout.asking.moment import NS, Moment, Signal
from robot_stack.rollout.asking.spread import CriticSpread, SampleSpread
from robot_stack.rollout.asking.stall import Stall
from robot_stack.types.command import IN_HAND, Source
from robot_stack.types.help import HelpEnd, HelpKind, HelpReason, HelpRequest, Meanwhile
from robot_stack.types.transition import EndReason

DISMISS = "dismiss"
"""The key by which an operator lets the policy go on."""
WINDOW_S = 3.0
"""Before a need that no request came before, in which its signs are looked for."""


def make_signals(config: AskingConfig, period_s: float) -> tuple[Signal, ...]:
    """Build the signals that a run's settings name."""
    every: tuple[Signal, ...] = (
        Stall(rise=config.stall_rise, period_s=period_s),
        Distance(),
        SampleSpread(),
        CriticSpread(),
    )
    by_kind = {signal.kind: signal for signal in every}
    return tuple(by_kind[HelpKind(name)] for name in config.signals)


class Asker:
    """Decides at each tick whether help is asked for; pure, with the time passed in.

    Args:
        config: Of the run.
        period_s: Of the control loop.

    Attributes:
        request: The open request, or None.
        account: Of the running episode, or else of the last one.
    """

    def __init__(self, config: AskingConfig, period_s: float) -> None:
        self._config = config
        self._period_s = period_s
        self._signals = make_signals(config, period_s)
        self._calibrator = Calibrator(config)
        self._incident = Incident(sustain_s=config.sustain_s, calm_s=config.calm_s, pause_s=config.pause_s)
        self._recent: deque[dict[HelpKind, float]] = deque(maxlen=max(1, math.ceil(WINDOW_S / period_s)))
        self.begin(0)

    @property
    def holding(self) -> bool:
        """Return whether the policy is to keep the arm still."""
        return self.request is not None and self.request.meanwhile is Meanwhile.NOBODY

    @property
    def led_by_base(self) -> bool:
        """Return whether the base policy is to lead the arm, since nobody has answered."""
        return self.request is not None and self.request.meanwhile is Meanwhile.BASE

    def begin(self, now_ns: int) -> None:
        """Begin an episode."""
        self.request: HelpRequest | None = None
        self.account = HelpAccount()
        self._began_ns = now_ns
        self._waited_s = 0.0
        self._in_hand = self._moved = self._helped = False
        self._incident.begin()
        self._begin_stretch()

    def driven(self, source: Source, now_ns: int) -> None:
        """Take in who moved the arm since the last tick."""
        if source in IN_HAND:
            self.account.in_hand_s += self._period_s
            if not self._in_hand:
                self._in_hand, self._moved = True, False
            if source is Source.HUMAN and not self._moved:
                self._moved = True
                self._taken(now_ns)
            return
        if self.request is not None:
            self.account.asked_s += self._period_s
        if self.led_by_base and source is Source.POLICY:
            self.account.requests[-1].base_s += self._period_s
        if self._in_hand:
            self._in_hand = False
            if self.request is not None:  # held without being moved: an operator looked, and gave it back
                self._dismiss(now_ns)
            self._incident.answered(now_ns)
            self._begin_stretch()

    def hear(self, events: Collection[str], now_ns: int) -> None:
        """Take in an operator's keys; one of them dismisses the open request."""
        if DISMISS in events and self.request is not None:
            self._dismiss(now_ns)
            self._incident.answered(now_ns)
            self._begin_stretch()

    def look(self, moment: Moment) -> None:
        """Take in a tick at which the policy has the arm; may open a request, withdraw it, or give up waiting."""
        if self.request is not None:
            self._waited_s += self._period_s
        if self.holding:  # what the signals say now is of an arm that is kept still
            if self._waited_s >= self._config.hold_s:
                self._go_on()
            return
        values = {signal.kind: signal.value(moment) for signal in self._signals}
        self._recent.append(values)
        _raise_to(self._peaks, values)
        judgement = self._calibrator.judge(values)
        self._incident.judge(judgement.ask, moment.now_ns)
        if self._incident.open and self.request is None:
            self._ask(judgement, values, moment.now_ns)
        elif not self._incident.open and self.request is not None:
            self._close(HelpEnd.WITHDRAWN, moment.now_ns)
            self._asked = False
        after_s = self._config.base_after_s
        if self.request is not None and after_s is not None and self._waited_s >= after_s:
            self._hand_to_base()

    def end(self, end: EndReason, now_ns: int) -> None:
        """Take in how the episode ended, and learn from it."""
        well, badly = end is EndReason.SUCCESS, end in (EndReason.FAILURE, EndReason.TIMEOUT)
        asked = self._asked
        if self.request is not None:
            self._close(HelpEnd.OVER, now_ns)
        if badly and not self._in_hand:
            self._calibrator.learn(self._needed_peaks(), needed=True)
            self.account.missed += not asked
        elif well and not self._helped:
            self._calibrator.learn(self._peaks, needed=False)
        for request in self.account.requests:
            if request.needed is None and (badly or (well and not self._helped)):
                request.needed = badly

    def figures(self) -> dict[str, float | None]:
        """Return what is known of the signals, for the log."""
        return self._calibrator.figures()

    def state_dict(self) -> dict[str, Any]:
        """Return what has been learnt between episodes, as JSON values."""
        return self._calibrator.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            ValueError: If it is of other signals.
        """
        self._calibrator.load_state_dict(state)

    def _begin_stretch(self) -> None:
        self._asked = False
        self._peaks: dict[HelpKind, float] = {}
        self._asked_peaks: dict[HelpKind, float] = {}
        self._recent.clear()
        for signal in self._signals:
            signal.begin()

    def _needed_peaks(self) -> dict[HelpKind, float]:
        """Return the signs of a need: those it was asked for, else the highest of the seconds before it."""
        return self._asked_peaks if self._asked else self._recent_peaks()

    def _recent_peaks(self) -> dict[HelpKind, float]:
        peaks: dict[HelpKind, float] = {}
        for values in self._recent:
            _raise_to(peaks, values)
        return peaks

    def _taken(self, now_ns: int) -> None:
        """Take in that an operator has taken the arm and moves it."""
        self._helped = True
        self._calibrator.learn(self._needed_peaks(), needed=True)
        self.account.missed += not self._asked
        if self.request is not None:
            self._close(HelpEnd.TAKEN, now_ns, needed=True)

    def _dismiss(self, now_ns: int) -> None:
        if self.led_by_base:  # the policy gets the arm back: that says nothing of whether it needed help
            self._close(HelpEnd.DISMISSED, now_ns)
            return
        self._calibrator.learn(self._asked_peaks, needed=False)
        self._close(HelpEnd.DISMISSED, now_ns, needed=False)

    def _ask(self, judgement: Judgement, values: Mapping[HelpKind, float], now_ns: int) -> None:
        signal = next(signal for signal in self._signals if signal.kind is judgement.kind)
        reason = HelpReason(kind=judgement.kind, text=signal.words(values[judgement.kind]))
        meanwhile = Meanwhile.NOBODY if self._config.hold else Meanwhile.POLICY
        self.request = HelpRequest(reason=reason, meanwhile=meanwhile)
        self._waited_s = 0.0
        self._asked, self._asked_peaks = True, self._recent_peaks()
        self.account.requests.append(
            AskedHelp(
                kind=reason.kind,
                text=reason.text,
                calibrated=judgement.calibrated,
                hold=self._config.hold,
                asked_s=(now_ns - self._began_ns) / NS,
            )
        )

    def _go_on(self) -> None:
        """Let the policy go on, as nobody came while it kept the arm still; the request stays open."""
        if self.request is not None:
            self.request = HelpRequest(reason=self.request.reason)

    def _hand_to_base(self) -> None:
        """Let the base policy lead; the request stays open, and a stretch that is helped so teaches no ease."""
        if self.request is not None:
            self.request = HelpRequest(reason=self.request.reason, meanwhile=Meanwhile.BASE)
            self._helped = True

    def _close(self, end: HelpEnd, now_ns: int, *, needed: bool | None = None) -> None:
        request = self.account.requests[-1]
        request.open_s = (now_ns - self._began_ns) / NS - request.asked_s
        request.end, request.needed = end, needed
        self.request = None


def _raise_to(peaks: dict[HelpKind, float], values: Mapping[HelpKind, float]) -> None:
    """Raise each peak to a newer value that is higher; NaN says nothing."""
    for kind, value in values.items():
        if not math.isnan(value) and not value <= peaks.get(kind, -math.inf):
            peaks[kind] = value
