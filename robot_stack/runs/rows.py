"""The rows of metrics.jsonl and of an actor's log: a dataclass per kind; `metrics` writes and reads them.

A row of an older version loads: what it lacks takes its default, what it says besides is left out. A float that is NaN
or infinite is null in the file and None when read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from robot_stack.types.help import HelpEnd, HelpKind
from robot_stack.types.transition import EndReason, EpisodeKind, back_id


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logged:
    """What every row says.

    Attributes:
        t: When it was written, seconds since the epoch; set by the log.
        lost_rows: Rows before it that the disk refused.
    """

    t: float = 0.0
    lost_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRow(_Logged):
    """A finished episode, as the learner counts it.

    Attributes:
        reset: Kind of its start, see `ResetType`; "back" in rows of before tasks had ids.
        task, task_id: Of the run, and which of the tasks that take turns it is of.
        duration_s: Robot time.
        human_steps: Steps in an operator's hand, moving or not.
        base_steps: Steps that the base policy led in the policy's place.
        clipped: Steps that the safety filter changed.
        success: As it counted in training.
        declared, refused: Whether the model declared a success, and whether the operator took it back.
        discarded: Whether the operator discarded it; figures of success leave it out.
        truth: Whether the task was done, as the simulator knows; else None.
        params_version: Newest parameters behind an action.
        progress_last, progress_max: Φ of the newest scored frame, and its maximum.
        reward_version: The reward model in use when the row was written.
    """

    kind: Literal["episode"] = "episode"
    episode_id: str
    episode_kind: EpisodeKind
    seed: int = -1
    level: int = 0
    reset: str = ""
    task: str = ""
    task_id: str = ""
    started_unix_s: float = 0.0
    end: EndReason | None = None
    steps: int
    duration_s: float
    human_steps: int = 0
    base_steps: int = 0
    interventions: int = 0
    clipped: int = 0
    success: bool
    declared: bool = False
    refused: bool = False
    discarded: bool = False
    truth: bool | None = None
    params_version: int = 0
    progress_last: float | None = None
    progress_max: float | None = None
    reward_version: str = ""

    @property
    def alone(self) -> bool:
        """Return whether the policy did all of it, without an operator and without its base in its place."""
        return not self.human_steps and not self.base_steps

    @property
    def first_task(self) -> bool:
        """Return whether it is of the first of the tasks that take turns; rows of before knew only two."""
        return self.task_id == self.task and self.reset != "back"

    @property
    def goes_back(self) -> bool:
        """Return whether it is of a task's way back, which figures of success leave out."""
        return self.task_id == back_id(self.task) or self.reset == "back"

    @property
    def succeeded(self) -> bool:
        """Return whether it succeeded: the truth if it is known, else what counted in training."""
        return self.success if self.truth is None else self.truth


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRow(_Logged):
    """An actor's account of the ticks of one episode.

    Attributes:
        jitter_ms, age_ms, act_ms, params_age_s: Per tick: jitter, age of the observation, time to act, age of the
            parameters.
        skew_ms_max: Largest skew between images of one observation.
        blind_ticks: Ticks without a usable image.
        holds, holds_by_operator: Ticks in HOLD, and those of them that an operator asked for.
        link: Whether the learner could be reached.
        params_refused: Why the newest parameters were not taken, or "".
        spooled: Steps that the learner has not acknowledged.
    """

    kind: Literal["control"] = "control"
    episode_id: str
    episode_kind: EpisodeKind
    end: EndReason | None = None
    steps: int = 0
    jitter_ms: list[float | None] = field(default_factory=list)
    age_ms: list[float | None] = field(default_factory=list)
    skew_ms_max: float | None = None
    act_ms: list[float | None] = field(default_factory=list)
    params_age_s: list[float | None] = field(default_factory=list)
    blind_ticks: int = 0
    holds: int = 0
    holds_by_operator: int = 0
    hold_reasons: list[str] = field(default_factory=list)
    link: bool = False
    params_refused: str = ""
    spooled: int = 0

    @property
    def system_holds(self) -> int:
        """Return the ticks in HOLD that no operator asked for."""
        return max(0, self.holds - self.holds_by_operator)


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpRow(_Logged):
    """A request for help that an actor's policy made.

    Attributes:
        reason, text: Kind and words of the reason.
        calibrated: Whether evidence decided on it, or the stall alone.
        hold: Whether the policy kept the arm still.
        asked_s, open_s: When, in seconds of the episode, and for how long it was open.
        end: How it ended.
        needed: Whether help was needed; None if nothing tells.
        base_s: Of it, for how long the base policy led the arm, as nobody answered.
    """

    kind: Literal["help"] = "help"
    episode_id: str
    reason: HelpKind
    text: str = ""
    calibrated: bool = False
    hold: bool = False
    asked_s: float = 0.0
    open_s: float = 0.0
    end: HelpEnd = HelpEnd.OVER
    needed: bool | None = None
    base_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingRow(_Logged):
    """An actor's account of the help that was asked for in one episode of online training.

    Attributes:
        on_request: Whether the operator looks only when asked; else they look all the time.
        requests: That were made.
        missed: Needs that no request came before.
        duration_s: Robot time.
        asked_s: Of it, with an open request and nobody's hand on the arm.
        in_hand_s: Of it, in an operator's hand.
        evaluate_ms_p99: What asking took of a tick, after its action was sent.
        evidence: Threshold, weights and counts of the calibrator after the episode.
    """

    kind: Literal["asking"] = "asking"
    episode_id: str
    on_request: bool = False
    requests: int = 0
    missed: int = 0
    duration_s: float = 0.0
    asked_s: float = 0.0
    in_hand_s: float = 0.0
    evaluate_ms_p99: float | None = None
    evidence: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def attention_s(self) -> float:
        """Return the seconds that the operator had to attend: all of them, unless they look on request."""
        return self.asked_s + self.in_hand_s if self.on_request else self.duration_s


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRow(_Logged):
    """The learner's report on its updates.

    Attributes:
        utd: Updates per online step so far, or None.
        replay: Frames held.
        metrics: Name -> value, of the algorithm; in the file beside the others.
    """

    kind: Literal["update"] = "update"
    updates: int
    env_steps: int
    utd: float | None = None
    updates_per_s: float | None = None
    replay: int = 0
    params_version: int = 0
    metrics: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def q_share(self) -> float | None:
        """Return the share of Q in the actor's gradient, in [0, 1]; None for an algorithm without both terms."""
        q, imitation = self.metrics.get("q_gradient"), self.metrics.get("imitation_gradient")
        if q is None or imitation is None or q + imitation <= 0.0:
            return None
        return q / (q + imitation)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticRow(_Logged):
    """The critic's answers about an episode, from a copy that was made before any update on that episode.

    Attributes:
        updates: Updates behind the copy.
        steps: Transitions that it was asked about.
        td_error: Root mean square of target - Q(executed action) over them.
        returns: Of them, those whose return is known: their episode ended by itself.
        q_mean, return_mean: Means over those of Q(executed action), and of the discounted return that followed.
        corrections, corrections_preferred: Transitions in which an operator corrected, and those of them in which
            Q(operator's action) > Q(policy's proposal).
        own_steps, own_preferred: The policy's own transitions in an episode that it ended well without help, and those
            of them in which Q(own action) > Q(uniform random action).
        ask_ms: Time for which the update loop stood still for the copy and the questions.
    """

    kind: Literal["critic"] = "critic"
    episode_id: str
    updates: int
    steps: int
    td_error: float | None = None
    returns: int = 0
    q_mean: float | None = None
    return_mean: float | None = None
    corrections: int = 0
    corrections_preferred: int = 0
    own_steps: int = 0
    own_preferred: int = 0
    ask_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRow(_Logged):
    """The fit of encoder and reward model that precedes online training, or that of a later encoder.

    Attributes:
        trunk_s, total_s: Seconds for the encoder, and for all.
        demos, demo_ids: Demonstrations that everything was fitted on.
        trunk: Identity of the encoder.
        cached_episodes, damaged_features: Episodes whose features were on disk, and files of which were damaged.
        pretrain_updates: Updates on the demonstrations alone.
        utd: Updates that the run asks for, per online step.
        online_episodes: Episodes of online training that had ended before the encoder was fitted.
    """

    kind: Literal["fit"] = "fit"
    trunk_s: float = 0.0
    total_s: float = 0.0
    demos: int | None = None
    demo_ids: list[str] = field(default_factory=list)
    trunk: str = ""
    cached_episodes: int = 0
    damaged_features: int = 0
    pretrain_updates: int | None = None
    utd: float | None = None
    online_episodes: int = 0


@dataclass(frozen=True, kw_only=True)
class FitReport:
    """What is known of a fitted reward model.

    Attributes:
        version: Its name.
        voc_heldout, voc_clock: Value-order correlation on held-out episodes, and that of a clock.
        false_done: Share of failures that it declares done.
        calibration_error: Of its success probability.
        episodes, failures: Fitted on, and how many of these failed.
        classifier: Operating point of the success classifier, if there is one.
        orders: Pairs of frames that it learned an order of: preferences and take-overs.
        order_accuracy: Share of the pairs with a held-out episode that Φ orders as was said.
        preferences: What became of the preferences there were: by whom they are, and why some do not count.
        trained_on: Episodes that some part of it was trained on; None in rows of before they were noted.
        held_out: Those held out from that, by which it is calibrated.
    """

    version: str
    voc_heldout: float | None = None
    voc_clock: float | None = None
    false_done: float | None = None
    calibration_error: float | None = None
    episodes: int = 0
    failures: int = 0
    classifier: Mapping[str, Any] | None = None
    orders: int = 0
    order_accuracy: float | None = None
    preferences: Mapping[str, int] = field(default_factory=dict)
    trained_on: tuple[str, ...] | None = None
    held_out: tuple[str, ...] = ()

    @property
    def classifier_unsure(self) -> bool:
        """Return whether there is a success classifier without the wanted precision, which refuses nothing."""
        return self.classifier is not None and self.classifier.get("reached") is False


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardFitRow(_Logged, FitReport):
    """A fit of the reward model on the first task.

    Attributes:
        others: Of the other tasks that take turns, by id.
        online_episodes: That there were by then.
    """

    kind: Literal["reward_fit"] = "reward_fit"
    others: Mapping[str, FitReport] = field(default_factory=dict)
    online_episodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRow(_Logged):
    """The end of online training."""

    kind: Literal["end"] = "end"
    updates: int
    env_steps: int
    replay_bytes_per_transition: float
    replay_transitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRow(_Logged):
    """A resume from a checkpoint."""

    kind: Literal["resume"] = "resume"
    updates: int
    env_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RescoredRow(_Logged):
    """All known episodes were scored anew by a large reward model."""

    kind: Literal["rescored"] = "rescored"
    version: str
    episodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRow(_Logged):
    """The reward model of a version is no longer trusted; `alarm` is the kind, `words` the text."""

    kind: Literal["alarm"] = "alarm"
    version: str
    alarm: str
    words: str = ""
    episodes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRow(_Logged):
    """An episode is broken and set aside."""

    kind: Literal["quarantine"] = "quarantine"
    episode_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRow(_Logged):
    """A checkpoint had seen an episode that is broken now."""

    kind: Literal["lost"] = "lost"
    episode_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefitFailedRow(_Logged):
    """A refit of the reward model or the image encoder was given up; the one in use goes on.

    Attributes:
        reason: Why, in words.
        why: There is no new version, or it fails its canaries, or declares fewer of the held-out successes.
    """

    kind: Literal["refit_failed"] = "refit_failed"
    reason: str
    why: Literal["not_fitted", "canary", "worse"] = "not_fitted"
    of: Literal["reward model", "image encoder"] = "reward model"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailedRow(_Logged):
    """A checkpoint was not written; the one before stays."""

    kind: Literal["checkpoint_failed"] = "checkpoint_failed"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow(_Logged):
    """An actor could not run an episode, or not keep something of it."""

    kind: Literal["fault"] = "fault"
    reason: str


MetricsRow = (
    EpisodeRow
    | ControlRow
    | HelpRow
    | AskingRow
    | UpdateRow
    | CriticRow
    | FitRow
    | RewardFitRow
    | EndRow
    | ResumeRow
    | RescoredRow
    | AlarmRow
    | QuarantineRow
    | LostRow
    | RefitFailedRow
    | CheckpointFailedRow
    | FaultRow
)
Kind = TypeVar("Kind", bound=_Logged)


def of_kind(rows: Iterable[MetricsRow], kind: type[Kind]) -> list[Kind]:
    """Return the rows of one kind, in their order."""
    return [row for row in rows if isinstance(row, kind)]
