"""State behind the page: what has been heard of a run. Decides nothing and sends nothing. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from robot_stack.config.camera import CameraConfig
from robot_stack.config.resolved import ResolvedRun
from robot_stack.console.curve import Curve
from robot_stack.console.episodes import EpisodeList
from robot_stack.console.figures import Diagnosed, Facts
from robot_stack.console.verdicts import Verdicts
from robot_stack.runs.learning import Learning
from robot_stack.runs.rows import ControlRow, EpisodeRow, MetricsRow
from robot_stack.runs.stage import Stage
from robot_stack.types.command import Mode
from robot_stack.types.errors import SpecError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.help import HelpRequest
from robot_stack.types.reward import LiveScore
from robot_stack.types.stages import StageMark, next_mark
from robot_stack.types.stamp import FUTURE_TOLERANCE_NS

WINDOW = 30
CLAIM_NS = 3_000_000_000
"""So long a success that the model claims can be refused with one key."""
LOG_LINES = 30


class CameraView:
    """Rate and age of one camera's images.

    Args:
        name: In the cell.
        config: Sizes and crop.
    """

    def __init__(self, name: str, config: CameraConfig) -> None:
        self.name = name
        self._config = config
        self._stamps: deque[int] = deque(maxlen=WINDOW)

    def frame(self, stamp_ns: int, now_ns: int) -> None:
        """Take in the stamp of an image that has come; one of the future, or not newer than the last, is left out."""
        newer = not self._stamps or stamp_ns > self._stamps[-1]
        if newer and stamp_ns <= now_ns + FUTURE_TOLERANCE_NS:
            self._stamps.append(stamp_ns)

    def layout(self) -> dict[str, Any]:
        """Return what does not change: sizes in pixels, and which part of the captured picture is kept."""
        config, roi = self._config, self._config.roi_px
        kept = [0, 0, config.width_px, config.height_px]
        return {
            "name": self.name,
            "captured": [config.width_px, config.height_px],
            "kept": kept if roi is None else [roi.left, roi.top, roi.width, roi.height],
            "policy": [config.policy_width_px, config.policy_height_px],
        }

    def to_json(self, now_ns: int) -> dict[str, Any]:
        """Return rate and age of the images now; on an image that is too old the policy does not act."""
        stamps = self._stamps
        if not stamps:
            return {"name": self.name, "hz": 0.0, "age_ms": None, "old": True}
        span_s = (stamps[-1] - stamps[0]) / 1e9
        age_s = (now_ns - stamps[-1]) / 1e9
        return {
            "name": self.name,
            "hz": round((len(stamps) - 1) / span_s, 1) if span_s > 0 else 0.0,
            "age_ms": round(1e3 * age_s),
            "old": age_s > self._config.max_age_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A success that the reward model claims: of which episode, how sure it is, NaN if unknown, and since when."""

    episode_id: str
    success: float
    since_ns: int


class Heard:
    """Everything that the page shows of one run, as it was heard.

    Attributes:
        facts: Rates, ages and counts.
        cameras: By name.
        episodes: The newest ones.
        verdicts: What counts for them.
        curve: Of the running episode.
        learning: Curves over robot time.
        log: Changes of state and what processes complain of, the newest last.
        mode, reason: Of the safety filter; None before it is heard.
        stage: Of the run once its cell has stopped, else None.
        scene: Address of the view in three dimensions, or "".
        folder: Of the run, as its commands name it, or "" while it is not known.
        prompt: What the cell asks an operator to do, or "".
        help: What the policy asks an operator for help with, or None.
        kind: Of the running episode, or "".
        finished: Whether one has just ended and the scene is not yet put back.
        resetting: Whether the scene is being put back.
        version: Counts up at what changes the list of episodes.
    """

    def __init__(self, run: ResolvedRun) -> None:
        self.facts = Facts(
            rate_hz=run.run.rate_hz,
            max_params_age_s=run.run.training.max_params_age_s,
            safety_hz=run.safety.rate_hz,
            stop_wired=bool(run.cell.stop_inputs),
        )
        self.stage: Stage | None = None
        self.cameras = {name: CameraView(name, config) for name, config in run.cameras.items()}
        self.episodes = EpisodeList(run.run.rate_hz)
        self.verdicts = Verdicts()
        self.curve = Curve(run.run.rate_hz)
        self.learning = Learning(run.run.rate_hz)
        self._task = run.task
        self.log: deque[dict[str, Any]] = deque(maxlen=LOG_LINES)
        self.logged = 0
        self.version = 0
        self.mode: Mode | None = None
        self.reason = ""
        self._safety_ns = 0
        self.prompt = ""
        self.scene = ""
        self.folder = ""
        self.help: HelpRequest | None = None
        self.kind = ""
        self.way = ""
        self.finished = False
        self.resetting = False
        self._last_episode = ""
        self._marks: list[StageMark] = []
        self._claim: Claim | None = None

    def rows(self, rows: Collection[MetricsRow]) -> None:
        """Take in what actor and learner wrote about episodes that have ended, and about updates."""
        for row in rows:
            self.learning.row(row)
            if isinstance(row, EpisodeRow | ControlRow):
                self.episodes.told(row)

    def notes(self, notes: Mapping[str, str]) -> None:
        """Take in what operators wrote about episodes before this process began."""
        for episode_id, text in notes.items():
            if self.episodes.holds(episode_id):
                self.episodes.note(episode_id, text)

    def banner(self, mode: Mode, reason: str, now_ns: int, now_unix_s: float) -> None:
        """Take in the safety filter's mode and its reason, or that they are what they were."""
        self._safety_ns = now_ns
        if (mode, reason) == (self.mode, self.reason):
            return
        self.tell(f"{mode}: {reason}" if reason else str(mode), now_unix_s)
        self.mode, self.reason = mode, reason
        self.episodes.drives(mode, now_ns)
        self.curve.drives(mode, now_ns)

    def asked(self, request: HelpRequest | None, now_unix_s: float) -> None:
        """Take in that the policy asks for help, or no longer does."""
        if request is not None and (self.help is None or request.reason != self.help.reason):
            self.tell(f"help wanted ({request.reason.kind}): {request.reason.text}", now_unix_s)
        self.help = request

    def episode(
        self, episode_id: str, kind: str, now_ns: int, now_unix_s: float, *, task_id: str | None = None
    ) -> None:
        """Take in that an episode runs, of the first task or of another that takes turns with it.

        Raises:
            SpecError: If no task has this id.
        """
        turn = self._task.turn(task_id)
        if episode_id == self.episodes.running:
            return
        self.episodes.begin(episode_id, kind, self.mode, now_ns, now_unix_s)
        self.curve.begin(episode_id, self.mode, now_ns, threshold=turn.success.threshold)
        self._marks = []
        self.facts.clips = self.facts.clamped()
        self.kind, self.way = kind, turn.text if len(self._task.turns) > 1 else ""
        self._last_episode = episode_id
        self.finished = self.resetting = False
        self.help = None  # of an actor that died in the middle of one, who never took it back

    def no_episode(self, *, resetting: bool, now_ns: int) -> None:
        """Take in that no episode runs: one has just ended, or the scene is put back."""
        self.episodes.end(now_ns)
        self.curve.drives(None, now_ns)
        self.kind, self.way, self.finished, self.resetting = "", "", not resetting, resetting
        self.help = None

    def events(self, events: Collection[str], device: str, now_ns: int, now_unix_s: float) -> Label | None:
        """Take in keys of an operator. A verdict is on the running episode, or on the one that the model claims.

        Returns:
            A verdict on a claim, which has to be kept: the actor soon puts the scene back and hears it no more.
        """
        if events:
            self.tell(f"{', '.join(events)} on {device}", now_unix_s)
        if "stage" in events and self.episodes.running:
            self._mark(self.episodes.elapsed_s(now_ns), now_unix_s)
        said = next((Verdict(event) for event in events if event in tuple(Verdict)), None)
        claim = self.claim(now_ns)
        episode_id = self.episodes.running or ("" if claim is None else claim.episode_id)
        if said is None or not episode_id:
            return None
        self._claim = None
        if self._said_already(episode_id, said):
            return None
        label = self.verdicts.label(episode_id, said, now_unix_s)
        self.verdicts.ended(label, now_ns)
        self.version += 1
        return None if self.episodes.running else label

    def _mark(self, at_s: float, now_unix_s: float) -> None:
        """Take in that the next stage begins, or tell why it cannot; the actor decides alike, a frame apart at most."""
        frame = max(1, round(at_s * self.facts.rate_hz))
        try:
            mark = next_mark(
                self.episodes.running, self._marks, frame=frame, names=self._task.stages, stamp_unix_s=now_unix_s
            )
        except SpecError as error:
            self.tell(str(error), now_unix_s)
            return
        self._marks.append(mark)
        self.curve.mark(at_s, mark.name or f"stage {mark.stage}")

    def stage_words(self) -> str:
        """Return which stage the running episode is in, or "" where the task names none and nobody has marked one."""
        names, stage = self._task.stages, len(self._marks)
        if not self.episodes.running or not (names or stage):
            return ""
        return f"stage {stage + 1} of {len(names)}: {names[stage]}" if names else f"stage {stage + 1}"

    def claimed(self, verdict: Verdict, now_ns: int, now_unix_s: float) -> None:
        """Take in the outcome that the reward model declares of the episode that has just ended."""
        episode_id, score = self._last_episode, self.curve.newest
        if not episode_id:
            return
        label = Label(episode_id=episode_id, verdict=verdict, source=LabelSource.MODEL, stamp_unix_s=now_unix_s)
        self.verdicts.claim(label)
        self.version += 1
        if verdict is Verdict.SUCCESS and self.verdicts.counts(episode_id) is label:
            success = float("nan") if score is None else score.success
            self._claim = Claim(episode_id=episode_id, success=success, since_ns=now_ns)

    def claim(self, now_ns: int) -> Claim | None:
        """Return the claimed success that an operator can refuse now, or None."""
        claim = self._claim
        return claim if claim is not None and now_ns - claim.since_ns <= CLAIM_NS else None

    def answered(self, claim: Claim) -> bool:
        """Close a claim, of which an operator has said what they think; return whether the actor still listens."""
        if self._claim is claim:
            self._claim = None
        self.version += 1
        return self.finished and self._last_episode == claim.episode_id

    def score(self, score: LiveScore, now_ns: int) -> None:
        """Take in the reward model's score of a frame."""
        self.curve.score(score)
        frames = self.episodes.elapsed_s(now_ns) * self.facts.rate_hz
        self.facts.score_ns, self.facts.score_behind = now_ns, max(0, round(frames) - score.index)

    def diagnosis(self, name: str, said: Diagnosed, now_unix_s: float) -> None:
        """Take in what a process says of one of its tasks, by a name such as "camera_wrist: frames"."""
        process, _, task = name.partition(": ")
        before = self.facts.diagnoses.get((process, task))
        news = before is None or (before.level, before.message) != (said.level, said.message)
        if said.level and news and name != "safety: filter":  # the banner says that already
            self.tell(f"{process}: {said.message}", now_unix_s)
        self.facts.diagnoses[process, task] = said

    def safety_silent_s(self, now_ns: int) -> float:
        """Return the seconds since the safety process last said its mode; 0 before it ever has."""
        return (now_ns - self._safety_ns) / 1e9 if self.mode is not None else 0.0

    def labels(self, labels: Collection[Label]) -> None:
        """Take in labels of episodes from others."""
        if labels:
            self.verdicts.load(labels)
            self.version += 1

    def _said_already(self, episode_id: str, verdict: Verdict) -> bool:
        label = self.verdicts.counts(episode_id)
        return label is not None and (label.verdict, label.source) == (verdict, LabelSource.OPERATOR)

    def tell(self, text: str, now_unix_s: float) -> None:
        """Add a line to the page's log."""
        self.log.append({"at": now_unix_s, "text": text})
        self.logged += 1
