"""What a page may have done, and what becomes of it."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

from robot_stack.console.heard import CLAIM_NS
from robot_stack.console.journal import Journal
from robot_stack.console.messages import Move, PageError, Press, Say, Seen, Sit, Undo, Write
from robot_stack.console.session import FOR_EVERYBODY, HERE_NS, ConsoleSession
from robot_stack.console.verdicts import UNDO_NS
from robot_stack.types.command import Mode
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.help import HelpKind, HelpReason, HelpRequest
from robot_stack.types.reward import LiveScore
from tests.console.page_rig import Done, FakeCell, sim_run
from tests.console.test_rights import real_run

S = 1_000_000_000
EPISODE = "000041-online-actor"


class Sitting:
    """A desk with one page at it, in time that the test turns."""

    def __init__(self, cell: FakeCell) -> None:
        self.desk, self.done, self.journal = cell.desk, cell.done, cell.journal
        self.heard = cell.desk.heard
        self.now_ns = 100 * S
        self.desk.join("a", self.now_ns)

    @property
    def unix_s(self) -> float:
        return 1e9 + self.now_ns / S

    def wait(self, seconds: float) -> None:
        self.now_ns += round(seconds * S)

    def does(self, message, page: str = "a") -> None:
        if isinstance(message, Press) and message.what in FOR_EVERYBODY:
            self.desk.halt(message.what)
            return
        left = self.desk.obey(page, message, self.now_ns, self.unix_s)
        if left is not None:
            left()

    def episode(self, name: str = EPISODE) -> None:
        self.heard.episode(name, "online", self.now_ns, self.unix_s)

    def ends(self, resetting: bool = False) -> None:
        self.heard.no_episode(resetting=resetting, now_ns=self.now_ns)

    def events(self, *events: str, device: str = "browser") -> None:
        label = self.heard.events(events, device, self.now_ns, self.unix_s)
        if label is not None:
            self.desk.keep(label)

    def claim(self) -> None:
        self.heard.claimed(Verdict.SUCCESS, self.now_ns, self.unix_s)

    def counts(self, name: str = EPISODE) -> tuple[Verdict, LabelSource] | None:
        label = self.heard.verdicts.counts(name)
        return None if label is None else (label.verdict, label.source)

    def now(self) -> dict:
        return self.desk.now(self.now_ns)

    def move(self, *pressed: str, live: bool = True) -> None:
        self.does(Move(t_ms=self.now_ns / 1e6, axes=(0.0,) * 6, pressed=frozenset(pressed), live=live))


@pytest.fixture
def at(cell) -> Sitting:
    return Sitting(cell)


@pytest.mark.parametrize("what", ["hold", "stop", "reset_done", "dismiss"])
def test_a_key_becomes_an_event(at, what):
    at.does(Press(what=what))
    assert at.done.pressed == [what]


def test_a_verdict_on_the_running_episode_goes_to_the_actor_and_counts_when_it_is_heard(at):
    at.episode()
    at.does(Press(what="success", episode=EPISODE))
    assert at.done.pressed == ["success"]
    assert at.counts() is None, "nobody has heard it yet"
    at.events("success")
    at.ends()
    assert at.counts() == (Verdict.SUCCESS, LabelSource.OPERATOR)
    assert at.journal.waiting == [], "the actor tells the learner"
    assert at.now()["undo"] == {"id": EPISODE, "number": "41", "verdict": "success", "left_s": 10.0}


def test_a_request_that_nobody_took_back_ends_with_its_episode(at):
    request = HelpRequest(reason=HelpReason(kind=HelpKind.STALL, text="no progress for 2.1 s"))
    at.episode()
    at.heard.asked(request, 0.0)
    assert at.heard.help == request
    at.ends()
    assert at.heard.help is None
    at.heard.asked(request, 0.0)
    at.episode("000042-online-actor")
    assert at.heard.help is None


def test_a_verdict_without_an_episode_is_refused(at):
    with pytest.raises(PageError, match="no episode runs"):
        at.does(Press(what="failure"))
    assert at.done.pressed == []


@pytest.mark.parametrize("claimed", [True, False])
def test_a_verdict_of_a_page_that_showed_no_episode_is_of_none(at, claimed):
    """It went to whatever ran when it arrived."""
    at.episode()
    if claimed:
        at.ends()
        at.claim()
    with pytest.raises(PageError, match="no episode runs, must run to be called a success"):
        at.does(Press(what="success"))
    assert at.done.pressed == []
    assert at.journal.waiting == []


def test_a_verdict_on_the_running_episode_is_no_word_on_the_one_before_that_is_claimed(at):
    at.episode()
    at.ends()
    at.claim()
    at.episode("000042-online-actor")
    at.does(Press(what="failure", episode="000042-online-actor"))
    assert at.done.pressed == ["failure"]
    assert at.counts() == (Verdict.SUCCESS, LabelSource.MODEL)


def test_a_claimed_success_is_refused_by_name_also_when_the_next_episode_runs(at):
    at.episode()
    at.heard.score(
        LiveScore(episode_id=EPISODE, index=9, progress=0.9, success=0.93, declared=True, version="v"), at.now_ns
    )
    at.ends()
    at.claim()
    assert at.now()["claim"] == {"id": EPISODE, "number": "41", "success": 0.93, "left_s": 3.0}
    at.ends(resetting=True)
    at.episode("000042-online-actor")
    at.wait(2.9)
    at.does(Press(what="failure", episode=EPISODE))
    assert at.done.pressed == [], "the running episode is not meant"
    assert at.counts() == (Verdict.FAILURE, LabelSource.OPERATOR)
    assert at.counts("000042-online-actor") is None
    assert [(label.episode_id, label.verdict) for label in at.desk.to_send(at.now_ns)] == [(EPISODE, Verdict.FAILURE)]
    assert at.now()["claim"] is None


def test_while_the_actor_still_listens_it_is_told_of_the_refusal_too(at):
    at.episode()
    at.ends()
    at.claim()
    at.does(Press(what="failure", episode=EPISODE))
    at.events("failure")
    assert at.done.pressed == ["failure"]
    assert len(at.journal.waiting) == 1
    at.does(Undo())
    assert at.counts() == (Verdict.SUCCESS, LabelSource.OPERATOR)


def test_after_three_seconds_the_claim_stands_and_the_key_is_for_the_running_episode(at):
    at.episode()
    at.ends()
    at.claim()
    at.episode("000042-online-actor")
    at.now_ns += CLAIM_NS + 1
    at.does(Press(what="failure", episode="000042-online-actor"))
    assert at.done.pressed == ["failure"]
    assert at.counts() == (Verdict.SUCCESS, LabelSource.MODEL)


def test_a_verdict_is_on_the_episode_that_the_button_named(at):
    at.episode()
    at.ends()
    at.claim()
    at.episode("000042-online-actor")
    at.now_ns += CLAIM_NS + 1
    at.does(Press(what="failure", episode=EPISODE))
    assert at.done.pressed == [], "the claim is over, but the running episode was not meant"
    assert at.counts() == (Verdict.FAILURE, LabelSource.OPERATOR)
    at.does(Press(what="failure", episode="000042-online-actor"))
    assert at.done.pressed == ["failure"]
    with pytest.raises(PageError, match="it is gone, or of another run"):
        at.does(Press(what="failure", episode="000001-online-actor"))


def test_a_claim_about_what_a_person_has_judged_is_no_proposal(at):
    at.episode()
    at.events("failure", device="gamepad")
    at.ends()
    at.claim()
    assert at.now()["claim"] is None
    assert at.counts() == (Verdict.FAILURE, LabelSource.OPERATOR)


def test_a_refusal_on_another_device_closes_the_claim(at):
    at.episode()
    at.ends()
    at.claim()
    at.events("failure", device="scripted")
    assert at.now()["claim"] is None
    assert at.counts() == (Verdict.FAILURE, LabelSource.OPERATOR)


@pytest.mark.parametrize("resetting", [False, True])
def test_a_refusal_on_a_gamepad_is_kept_for_the_learner_also_if_the_actor_hears_it_no_more(at, resetting):
    """The page showed it as counted, and nobody had recorded it."""
    at.episode()
    at.ends()
    at.claim()
    at.ends(resetting=resetting)
    at.events("failure", device="gamepad")
    assert at.counts() == (Verdict.FAILURE, LabelSource.OPERATOR)
    assert [label.verdict for label in at.desk.to_send(at.now_ns)] == [Verdict.FAILURE]


def test_a_word_from_the_list_waits_ten_seconds_before_it_is_sent(at):
    at.episode()
    at.ends()
    at.does(Say(episode=EPISODE, verdict=Verdict.DISCARD))
    assert at.desk.to_send(at.now_ns) == []
    at.now_ns += UNDO_NS
    (label,) = at.desk.to_send(at.now_ns)
    assert (label.episode_id, label.verdict) == (EPISODE, Verdict.DISCARD)
    at.desk.sent(label)
    assert at.desk.to_send(at.now_ns) == []


def test_taken_back_it_is_never_sent(at):
    at.episode()
    at.ends()
    at.does(Say(episode=EPISODE, verdict=Verdict.SUCCESS))
    at.wait(9)
    at.does(Undo())
    at.wait(60)
    assert at.desk.to_send(at.now_ns) == []
    assert at.counts() is None


def test_a_key_that_is_taken_back_sets_the_episode_aside(at):
    at.episode()
    at.events("success")
    at.ends()
    at.does(Undo())
    assert at.counts() == (Verdict.DISCARD, LabelSource.OPERATOR)
    assert [label.verdict for label in at.desk.to_send(at.now_ns)] == [Verdict.DISCARD]


def test_a_verdict_on_a_running_episode_of_the_list_is_refused(at):
    at.episode()
    with pytest.raises(PageError, match="still runs"):
        at.does(Say(episode=EPISODE, verdict=Verdict.SUCCESS))


@pytest.mark.parametrize("message", [Say(episode="none", verdict=Verdict.SUCCESS), Write(episode="none", text="")])
def test_an_episode_that_is_gone_is_a_sentence(at, message):
    with pytest.raises(PageError, match="it is gone, or of another run"):
        at.does(message)
    assert at.journal.waiting == []


def test_a_note_is_kept_and_shown(at):
    at.episode()
    at.does(Write(episode=EPISODE, text="slipped"))
    assert at.journal.notes() == {EPISODE: "slipped"}
    assert at.desk.part("episodes")[0]["note"] == "slipped"


def test_what_is_on_its_way_and_what_was_refused_is_said(at):
    at.episode()
    at.ends()
    at.does(Say(episode=EPISODE, verdict=Verdict.SUCCESS))
    assert at.desk.part("episodes")[0]["state"] == "on its way to the store"
    at.now_ns += UNDO_NS
    (label,) = at.desk.to_send(at.now_ns)
    at.desk.sent(label, "the episode was set aside")
    assert at.desk.part("episodes")[0]["state"] == "not taken: the episode was set aside"


def test_a_page_that_watches_may_hold_and_stop_and_nothing_else(at):
    at.desk.join("b", at.now_ns)
    at.episode()
    for what in ("hold", "stop"):
        at.does(Press(what=what), page="b")
    assert at.done.pressed == ["hold", "stop"]
    refused = [
        Press(what="success"), Press(what="arm"), Press(what="reset_done"), Press(what="clear_stop"), Undo(),
        Say(episode=EPISODE, verdict=Verdict.SUCCESS), Write(episode=EPISODE, text="x"),
        Move(t_ms=1.0, axes=(0.0,) * 6, pressed=frozenset(), live=True),
    ]  # fmt: skip
    for message in refused:
        with pytest.raises(PageError, match="this page watches"):
            at.does(message, page="b")
    assert at.done.moves == []
    at.does(Sit(), page="b")
    at.does(Press(what="success", episode=EPISODE), page="b")
    assert at.done.pressed == ["hold", "stop", "success"]


def test_what_enables_motion_is_asked_of_the_filter_which_says_why_not(at):
    at.does(Press(what="arm"))
    at.heard.banner(Mode.HOLD, "x", at.now_ns, at.unix_s)
    at.does(Press(what="arm"))
    at.does(Press(what="clear_stop"))
    assert at.done.requested == ["arm", "resume", "clear_stop"]
    assert at.done.pressed == []


def test_a_hand_drives_and_is_gone_when_its_page_closes(at):
    at.move("deadman")
    assert at.done.driving
    assert at.desk.here(at.now_ns)
    at.heard.banner(Mode.HUMAN, "", at.now_ns, at.unix_s)
    assert "A page drives" in at.now()["banner"]["why"]
    at.desk.leave("a", at.now_ns)
    assert at.done.gone
    assert not at.desk.here(at.now_ns)


def test_a_hand_that_falls_silent_is_not_on_the_arm(at):
    at.move("deadman")
    at.now_ns += HERE_NS + 1
    assert not at.desk.here(at.now_ns)


def test_the_desk_is_not_taken_from_a_hand_that_drives(at):
    at.desk.join("b", at.now_ns)
    at.move("deadman")
    with pytest.raises(PageError, match="drives the arm"):
        at.does(Sit(), page="b")
    at.wait(0.1)
    at.move()
    at.does(Sit(), page="b")
    with pytest.raises(PageError, match="this page watches"):
        at.move("deadman")


def test_a_page_that_drove_once_and_watches_holds_no_arm_when_it_closes(at):
    """The hand of another page is on it."""
    at.desk.join("b", at.now_ns)
    at.move("deadman")
    at.now_ns += HERE_NS + 1  # the first page is silent, so that another may become the operator's
    at.does(Sit(), page="b")
    at.does(Move(t_ms=1.0, axes=(0.0,) * 6, pressed=frozenset({"deadman"}), live=True), page="b")
    at.desk.leave("a", at.now_ns)
    assert at.done.driving
    assert not at.done.gone
    at.desk.leave("b", at.now_ns)
    assert at.done.gone


def test_a_deadman_that_was_held_while_another_page_was_the_operators_is_let_go_first(at):
    at.desk.join("b", at.now_ns)
    at.move("deadman")
    at.now_ns += HERE_NS + 1
    at.does(Sit(), page="b")
    at.does(Sit())
    at.move("deadman")
    assert not at.done.driving
    at.move()
    at.move("deadman")
    assert at.done.driving


def test_to_become_the_operator_again_changes_nothing_for_a_hand_that_drives(at):
    at.move("deadman")
    at.does(Sit())
    at.move("deadman")
    assert at.done.driving


def test_on_a_real_cell_nothing_a_page_says_moves_or_enables(tmp_path):
    at = Sitting(FakeCell(real_run(), tmp_path))
    with pytest.raises(PageError, match="must be moved by the device at the robot"):
        at.move("deadman")
    for what in ("arm", "clear_stop"):
        with pytest.raises(PageError, match="must be pressed at the robot on a real cell"):
            at.does(Press(what=what))
    for what in ("hold", "reset_done", "stop"):
        at.does(Press(what=what))
    assert at.done.moves == []
    assert at.done.requested == []
    assert at.done.pressed == ["hold", "reset_done", "stop"]


def test_a_page_is_heard_by_what_it_shows(at):
    at.wait(5)
    assert not at.desk.operator_lock.attended(at.now_ns)
    at.does(Seen(state=1, image=1, in_view=False))
    assert not at.desk.operator_lock.attended(at.now_ns), "heard behind another tab"
    at.does(Seen(state=1, image=1))
    assert at.desk.operator_lock.attended(at.now_ns)


def test_everything_that_is_shown_is_json(at, cell):
    at.episode()
    cell.diagnosis("safety: filter", clamped_speed=3)
    cell.diagnosis("actor: policy", link="up", params_version=1, params_age_s=1.0, jitter_p99_ms=1, act_ms="")
    at.heard.score(
        LiveScore(
            episode_id=EPISODE, index=1, progress=float("nan"), success=float("nan"), declared=False, version="v"
        ),
        at.now_ns,
    )
    at.ends()
    at.claim()
    for part in (at.desk.welcome(), at.now(), *(at.desk.part(name) for name in ("episodes", "curve", "log"))):
        assert json.loads(json.dumps(part, allow_nan=False)) == part


def test_a_full_disk_refuses_the_word_and_nothing_counts(at, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    at.episode()
    at.ends()
    monkeypatch.setattr("robot_stack.console.journal.append_row", full)
    for message in (Say(episode=EPISODE, verdict=Verdict.SUCCESS), Write(episode=EPISODE, text="x")):
        with pytest.raises(StoreError, match="No space left on device"):
            at.does(message)
    assert at.counts() is None
    assert at.now()["undo"] is None


@pytest.mark.parametrize("kept_back", [True, False], ids=["from_the_list", "by_a_key"])
def test_a_full_disk_takes_no_verdict_back(at, monkeypatch, tmp_path, kept_back):
    """It read as taken back, and after a restart it counted."""

    def full(*_):
        raise OSError(28, "No space left on device")

    at.episode()
    if not kept_back:
        at.events("failure")
    at.ends()
    if kept_back:
        at.does(Say(episode=EPISODE, verdict=Verdict.FAILURE))
    waited = at.journal.waiting
    with monkeypatch.context() as disk:
        disk.setattr("robot_stack.console.journal.append_row", full)
        with pytest.raises(StoreError, match="No space left on device"):
            at.does(Undo())
    assert at.counts() == (Verdict.FAILURE, LabelSource.OPERATOR)
    assert at.now()["undo"]["verdict"] == "failure"
    assert at.journal.waiting == waited
    at.does(Undo())
    assert at.now()["undo"] is None
    again = Journal(tmp_path)
    again.open()
    assert [label.verdict for label in again.waiting] == ([] if kept_back else [Verdict.DISCARD])


def test_what_the_learner_may_have_been_sent_meanwhile_is_not_taken_back(at):
    """A disk that is slow may keep an undo that was pressed in time until it is too late."""
    at.episode()
    at.ends()
    at.does(Say(episode=EPISODE, verdict=Verdict.FAILURE))
    at.wait(9)
    left = at.desk.obey("a", Undo(), at.now_ns, at.unix_s)
    at.wait(2)
    assert [label.verdict for label in at.desk.to_send(at.now_ns)] == [Verdict.FAILURE]
    with pytest.raises(PageError, match="nothing was said within 10 s"):
        left()


def test_what_is_said_while_an_undo_is_written_stays(at, monkeypatch):
    """A gamepad's verdict on the claim of the next episode, heard while the disk was waited for."""

    def slow(path, row):
        at.episode("000042-online-actor")
        at.events("success", device="gamepad")

    at.episode()
    at.ends()
    at.does(Say(episode=EPISODE, verdict=Verdict.FAILURE))
    monkeypatch.setattr("robot_stack.console.journal.append_row", slow)
    at.does(Undo())
    assert at.counts() is None
    assert at.counts("000042-online-actor") == (Verdict.SUCCESS, LabelSource.OPERATOR)
    assert at.now()["undo"]["number"] == "42"


def test_an_answer_that_was_written_slowly_is_not_taken_for_one_of_the_next_episode(at, monkeypatch):
    """The actor hears a key as about the episode that it has just ended."""

    def slow(path, row):
        at.episode("000042-online-actor")
        at.ends()
        at.claim()

    at.episode()
    at.ends()
    at.claim()
    monkeypatch.setattr("robot_stack.console.journal.append_row", slow)
    at.does(Press(what="failure", episode=EPISODE))
    assert at.done.pressed == []
    assert at.counts() == (Verdict.FAILURE, LabelSource.OPERATOR)
    assert at.now()["claim"]["number"] == "42", "of which nobody has said anything yet"


def test_threads_do_not_tear_what_is_shown(cell):
    at, failures = Sitting(cell), []

    def hear() -> None:
        rng = np.random.default_rng(0)
        for number in range(300):
            with at.desk.locked():
                at.heard.episode(f"{number:06d}-online-a", "online", at.now_ns, at.unix_s)
                at.heard.labels(
                    [Label(episode_id=f"{number:06d}-online-a", verdict=Verdict(rng.choice(list(Verdict))),
                           source=LabelSource.OPERATOR, stamp_unix_s=float(number))]
                )  # fmt: skip

    def show() -> None:
        try:
            for _ in range(60):
                with at.desk.locked():
                    json.dumps(at.now())
                    json.dumps(at.desk.part("episodes"))
        except Exception as error:  # the top of a thread: what went wrong is asserted below
            failures.append(error)

    threads = [threading.Thread(target=job) for job in (hear, show, show)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures


def test_a_run_without_a_page_for_the_hand_says_which_device_takes_one(tmp_path):
    desk = ConsoleSession(sim_run("teleop.page=null"), Done(), FakeCell(sim_run(), tmp_path).journal)
    desk.join("a", 0)
    with pytest.raises(PageError, match=r"set cell\.teleop=browser"):
        desk.obey("a", Move(t_ms=1.0, axes=(0.0,) * 6, pressed=frozenset(), live=True), 0, 0.0)
