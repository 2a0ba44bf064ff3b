"""The harness on synthetic models: the perfect one passes, each of the others is caught at what is wrong with it."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from reward_models.evaluate.document import document, table
from reward_models.evaluate.harness import Report, evaluate
from reward_models.evaluate.judge import judge, thinned
from reward_models.interface import Capabilities, ClipQuery, Instruction, OtherWords, PairQuery, RewardModel, Score
from robot_stack.types.errors import RewardError
from tests.reward_models.watermarked import (
    KINDS,
    OTHER,
    RULE,
    TASK,
    Pairs,
    Watermark,
    drawn,
    episode,
    episodes,
    read,
    written,
)


class Peeping(Watermark):
    """Scores a clip by the longest one that it is asked about at the same time, as min-max over an episode does."""

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        longest = max(queries, key=lambda query: len(query.frames))
        return [Score(value=read(query) * written(longest.frames[-1])) for query in queries]


class Forgetful(Watermark):
    """Answers otherwise when asked again."""

    asked = 0

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        self.asked += 1
        return [Score(value=0.5 * read(query) + 0.4 / self.asked) for query in queries]


def unreadable(query: ClipQuery) -> float:
    return math.nan if len(query.frames) % 7 == 0 else read(query)


def refusing(query: ClipQuery) -> float:
    if query.frames[0].key == episode("stall", 1).frames[0].key:
        raise RewardError("the image is upside down")
    return read(query)


def remembers_time(query: ClipQuery) -> float:
    return min(1.0, len(query.frames) / 30)


MODELS: dict[str, RewardModel] = {
    "perfect": Watermark(read),
    "blind to words": Watermark(lambda query: written(query.frames[-1])),
    "clock": Watermark(remembers_time),
    "constant": Watermark(lambda query: 0.5),
    "random": Watermark(drawn),
    "peeping": Peeping(read),
    "forgetful": Forgetful(read),
    "unreadable": Watermark(unreadable),
    "refusing": Watermark(refusing),
    "remaining": Pairs("remaining"),
    "hop": Pairs("hop"),
}


@cache
def report(name: str) -> Report:
    return evaluate(MODELS[name], episodes(), 0, rule=RULE, dt_s=0.1)


def passed(name: str) -> dict[str, bool | None]:
    return {check.name: check.passed for check in report(name).checks}


def test_perfect_model_is_right_in_every_section() -> None:
    found = report("perfect")
    assert found.ordering.voc.value > 0.99
    assert found.backwards.voc_reversed.value < -0.99
    assert found.accuracy["all"].mae.value == pytest.approx(0, abs=1e-9)
    assert found.accuracy["all"].near.value == 1.0
    assert found.accuracy["stall"].final_phi.value == pytest.approx(0.5, abs=0.01)
    assert (found.discrimination.auc.value, found.discrimination.missed.count) == (1.0, 0)
    assert (found.discrimination.false_done.count, found.discrimination.early.count) == (0, 0)
    assert found.ranking.in_order is True
    assert found.words.margin == pytest.approx(1.0)
    assert found.axioms.causal
    assert found.axioms.deterministic
    assert set(found.axioms.direction.values()) == {1.0}
    assert found.nulls["clock"].beaten
    assert found.nulls["constant"].beaten
    assert found.unreadable == 0.0
    assert not found.refused


def test_perfect_model_fails_only_for_want_of_episodes() -> None:
    wrong = [name for name, good in passed("perfect").items() if good is not True]
    assert wrong == ["false done"]  # none of 25, which bounds nothing below 5 %
    assert report("perfect").discrimination.false_done.high > 0.05
    assert report("perfect").verdict == "rejected"


@pytest.mark.parametrize("name", ["clock", "constant", "random"])
def test_a_null_model_does_not_beat_the_clock_and_is_rejected(name: str) -> None:
    assert passed(name)["beats the clock"] is False
    assert report(name).verdict == "rejected"


def test_clock_null_has_a_perfect_order_and_tells_nothing_apart() -> None:
    clock = report("perfect").nulls["clock"]
    assert clock.ordering.voc.value == pytest.approx(1.0)
    assert clock.discrimination.auc.value == 0.5
    assert clock.discrimination.false_done.count == clock.discrimination.false_done.n


def test_constant_counts_as_no_order() -> None:
    found = report("constant").ordering
    assert (found.voc.value, found.degenerate) == (0.0, KINDS["success"])


def test_model_that_does_not_read_is_caught_by_other_words_alone() -> None:
    assert passed("blind to words")["Φ under other words"] is False
    assert passed("blind to words")["beats the clock"] is False
    assert report("blind to words").discrimination.auc_against["mismatch"].value == 0.5
    assert report("blind to words").ordering.voc.value > 0.99
    assert report("blind to words").words.margin == pytest.approx(0.0)


def test_model_that_reads_the_future_is_caught() -> None:
    assert not report("peeping").axioms.causal
    assert passed("peeping")["reads no future"] is False
    assert passed("perfect")["reads no future"] is True


def test_model_that_changes_its_mind_is_caught() -> None:
    assert not report("forgetful").axioms.deterministic


def test_model_that_counts_frames_moves_while_nothing_happens() -> None:
    assert report("clock").axioms.hold_change.value > 0.1
    assert passed("clock")["Φ while nothing happens"] is False
    assert report("perfect").axioms.hold_change.value == 0.0


def test_an_unreadable_answer_is_not_zero() -> None:
    found = report("unreadable")
    assert found.unreadable == pytest.approx(1 / 7, abs=0.03)
    assert found.accuracy["success"].mae.value < 0.01  # what lies between two frames of a line is a line
    assert found.ordering.voc.value > 0.99
    assert found.accuracy["all"].final_phi.n == len(found.judged)
    assert sum(int(line["unreadable"]) for line in csv.DictReader(io.StringIO(table(found)))) > 0


def test_an_episode_of_which_too_little_can_be_read_is_refused_as_in_a_run() -> None:
    with pytest.raises(RewardError, match=r"that could be read are \d+ of \d+, must be 80%; look at the model's words"):
        judge(Watermark(lambda q: math.nan if len(q.frames) % 3 == 0 else read(q)), episode("success", 0), RULE)


def test_an_answer_that_cannot_be_read_is_asked_for_once_more() -> None:
    asked: list[str] = []

    def hesitant(query: ClipQuery) -> float:
        asked.append(query.key)
        return math.nan if asked.count(query.key) == 1 else read(query)

    shown = episode("success", 0)
    judged = judge(Watermark(hesitant), shown, RULE)
    assert judged.unreadable == 0
    assert judged.phi == pytest.approx(shown.progress)


def test_a_question_that_was_never_answered_refuses_the_episode() -> None:
    class Away(Watermark):
        def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
            return [Score(value=math.nan, raw="it answered 503", lost=True) for _ in queries]

    with pytest.raises(RewardError, match="left a question without an answer, must answer all: it answered 503"):
        judge(Away(read), episode("success", 0), RULE)


def test_episode_that_cannot_be_scored_is_named_and_the_rest_goes_on() -> None:
    found = report("refusing")
    assert found.refused == {"stall-1": "the image is upside down"}
    assert len(found.judged) == len(episodes()) - 1
    assert found.accuracy["stall"].final_phi.n == KINDS["stall"] - 1


def test_model_of_one_task_that_refuses_others_by_name_passes_that_check() -> None:
    def of_one_task(query: ClipQuery) -> float:
        if query.instruction.text != TASK:
            raise OtherWords("task is another")
        return read(query)

    found = evaluate(Watermark(of_one_task), episodes(), 0, rule=RULE, dt_s=0.1)
    checks = {check.name: (check.found, check.passed) for check in found.checks}
    assert found.other_words
    assert checks["Φ under other words"] == ("refused by name", True)
    assert checks["beats the clock"] == ("on fail, apart, stall", True)
    assert len(found.refused) == KINDS["mismatch"]
    assert not report("perfect").other_words

    def of_half(query: ClipQuery) -> float:
        if query.instruction.text != TASK and len(query.frames) > 1 and query.frames[0].key < "8":
            raise OtherWords("task is another")
        return read(query)

    half = evaluate(Watermark(of_half), episodes(), 0, rule=RULE, dt_s=0.1)
    assert 0 < len(half.refused) < KINDS["mismatch"]
    assert not half.other_words


def test_model_that_will_not_look_at_changed_images_is_still_evaluated() -> None:
    def shy(query: ClipQuery) -> float:
        if query.instruction.text != TASK and query.instruction.goal is None:
            raise RewardError("no such words")
        if all((image == 128).all() for image in query.frames[-1].images.values()):
            raise RewardError("nothing but grey")
        if (query.frames[-1].view("wrist") == 0).all():
            raise RewardError("the wrist is dark")
        return read(query)

    known = Instruction(text=OTHER, goal=episodes()[0].frames[-1])
    shown = [replace(e, instruction=known) if e.kind == "mismatch" else e for e in episodes()]
    found = evaluate(Watermark(shy), shown, 0, rule=RULE, dt_s=0.1)
    assert not found.refused
    assert found.skipped["other words"] == "no such words"
    assert found.skipped["nothing but grey"] == "nothing but grey"
    assert "nothing but grey" not in found.canaries
    assert found.robustness["wrist dark"].refused == "the wrist is dark"
    assert found.robustness["front dark"].refused == ""
    assert found.accuracy["success"].mae.value == pytest.approx(0, abs=1e-9)


def test_model_that_can_score_nothing_says_why() -> None:
    def broken(query: ClipQuery) -> float:
        raise RewardError("the weights are gone")

    with pytest.raises(
        RewardError, match=r"none of 2 episodes could be scored by watermark; of drop-0: the weights are gone"
    ):
        evaluate(Watermark(broken), [episode("drop", 0), episode("success", 0)], 0, rule=RULE, dt_s=0.1)
    with pytest.raises(RewardError, match="labelled episodes are 0"):
        evaluate(Watermark(read), [], 0, rule=RULE, dt_s=0.1)


@pytest.mark.parametrize("value", [1.5, -0.1, math.inf])
def test_answer_outside_its_range_is_refused(value: float) -> None:
    with pytest.raises(RewardError, match=r"must be in \[0, 1\] or NaN"):
        judge(Watermark(lambda query: value), episode("success", 0), RULE)


def test_model_that_answers_too_little_is_refused() -> None:
    class Lazy(Watermark):
        def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
            return super().score_progress(queries)[1:]

    with pytest.raises(RewardError, match="one a question"):
        judge(Lazy(read), episode("success", 0), RULE)


def test_model_that_knows_nothing_is_refused() -> None:
    model = Watermark(read)
    model.capabilities = Capabilities()
    with pytest.raises(RewardError, match="neither progress nor pairs nor done"):
        judge(model, episode("success", 0), RULE)


class OnlyDone(Watermark):
    """Knows no Φ, like any model that is asked yes or no."""

    capabilities = Capabilities(done=True, max_batch=7)

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        raise AssertionError("was never to be asked")

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        return [Score(value=1.0 if self._answer(query) > 0.99 else 0.1) for query in queries]


def test_model_that_only_knows_done_is_judged_by_what_it_calls_done() -> None:
    found = evaluate(OnlyDone(read), episodes(), 0, rule=RULE, dt_s=0.1)
    assert not found.refused
    assert (found.discrimination.false_done.count, found.discrimination.missed.count) == (0, 0)
    assert found.discrimination.auc_done.value == 1.0
    assert (found.ordering.voc.n, found.discrimination.auc.n, found.unreadable) == (0, 0, 0.0)
    assert found.axioms.causal
    assert found.cost.queries_per_frame == 1.0
    passed = {check.name: check.passed for check in found.checks}
    assert passed["success from the rest"] is True
    assert passed["beats the clock"] is None
    eager = evaluate(OnlyDone(lambda query: 1.0), episodes(), 0, rule=RULE, dt_s=0.1)
    assert eager.discrimination.false_done.count == eager.discrimination.false_done.n > 0
    assert eager.verdict == "rejected"
    assert json.loads(json.dumps(document(found, fit_s=None), allow_nan=False))["voc_success"] is None


@pytest.mark.parametrize("semantics", ["remaining", "hop"])
def test_perfect_judge_of_pairs_is_decoded_to_the_truth(semantics: str) -> None:
    found = report(semantics)
    assert found.accuracy["success"].mae.value < 0.01
    assert found.accuracy["regress_recover"].mae.value < (0.01 if semantics == "hop" else 0.3)
    assert min(found.backwards.vroc.value, found.backwards.f1.value) > 0.99
    assert found.backwards.negative_rate.value == 0.0
    assert found.axioms.macro_residual < (1e-6 if semantics == "hop" else 0.2)
    assert found.axioms.reverse_residual < 1e-6
    assert math.isnan(report("perfect").axioms.macro_residual)


def test_model_that_only_says_which_is_further_is_judged_by_the_order_of_pairs() -> None:
    class Signs(Pairs):
        def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
            return [Score(value=float(np.sign(score.value))) for score in super().score_pairs(queries)]

    alone = Signs("hop")
    alone.capabilities = Capabilities(pair="sign")
    found = evaluate(alone, episodes(), 0, rule=RULE, dt_s=0.1)
    assert found.backwards.voc_pairs.value > 0.95
    assert (found.ordering.voc.n, found.discrimination.false_done.n, found.discrimination.missed.n) == (0, 0, 0)
    assert found.verdict == "not known"

    class Both(Signs):
        def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
            return [Score(value=read(query)) for query in queries]

    both = Both("hop")
    both.capabilities = Capabilities(pair="sign", progress=True)
    found = evaluate(both, episodes(), 0, rule=RULE, dt_s=0.1)
    assert min(found.backwards.voc_pairs.value, found.backwards.vroc.value) > 0.95
    assert math.isnan(found.axioms.macro_residual)
    assert found.axioms.reverse_residual == 0.0


def test_cost_counts_every_question() -> None:
    asked = 0

    class Counting(Watermark):
        def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
            nonlocal asked
            asked += len(queries)
            return super().score_progress(queries)

        def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
            return self.score_progress(queries)

    found = evaluate(Counting(read), episodes()[:4], 0, rule=RULE, dt_s=0.1).cost
    assert found.queries == asked
    assert found.images == 2 * asked  # two views, of the last frame alone
    assert min(found.ms_per_frame, found.ms_per_frame_batched) > 0


def test_same_seed_is_the_same_report_but_for_its_times() -> None:
    one, other = (document(evaluate(Watermark(read), episodes(), 3, rule=RULE, dt_s=0.1), fit_s=None) for _ in range(2))
    for found in (one, other):
        del found["sections"]["cost"], found["ms_per_frame"], found["ms_per_frame_batched"]
    assert one == other


def test_thinned_episode_keeps_its_last_frame_and_when_it_was_done() -> None:
    whole = episode("success", 0)
    thin = thinned(whole, 4)
    assert thin.frames[-1] is whole.frames[-1]
    assert thin.done_at is not None
    assert thin.progress[thin.done_at] == 1.0
    assert (thin.progress[: thin.done_at] < 1.0).all()
    assert thinned(whole, 1) is whole


def test_document_has_its_keys_and_no_number_that_is_none() -> None:
    found = document(report("unreadable"), fit_s=1.5)
    assert list(found) == [
        "fit_s", "voc_success", "mae", "final_phi", "false_done", "auc", "voc_reversed", "beats_null", "causal",
        "ms_per_frame", "ms_per_frame_batched", "sections",
    ]  # fmt: skip
    assert set(found["final_phi"]) == {"success", "partial", "fail", "apart", "stall", "mismatch"}
    assert set(found["false_done"]) == {"n", "count"}
    assert set(found["beats_null"]) == {"clock", "constant", "random"}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_table_has_one_line_an_episode() -> None:
    lines = list(csv.DictReader(io.StringIO(table(report("perfect")))))
    assert [line["episode"] for line in lines] == [e.name for e in episodes()]
    assert {line["class"] for line in lines if line["kind"] in ("near_miss", "drop")} == {"fail"}
    assert all(line["latched"] == "" for line in lines if line["kind"] == "stall")


def test_episodes_without_failures_leave_the_verdict_open() -> None:
    found = evaluate(Watermark(read), [episode("success", i) for i in range(4)], 0, rule=RULE, dt_s=0.1)
    assert found.verdict == "not known"
    assert {c.name for c in found.checks if c.passed is None} >= {
        "beats the clock",
        "false done",
        "Φ under other words",
    }
    assert found.nulls["clock"].beaten is None


def test_episodes_whose_progress_nobody_knows_have_no_error() -> None:
    unknown = [replace(e, progress=np.full(len(e.frames), np.nan)) for e in episodes()]
    found = evaluate(Watermark(read), unknown, 0, rule=RULE, dt_s=0.1)
    assert found.accuracy["all"].mae.n == 0
    assert found.discrimination.auc.value == 1.0
    assert document(found, fit_s=None)["mae"] is None


def falls_for_missing(query: ClipQuery) -> float:
    """Reads, but goes by the clock where progress has never begun."""
    begun = any(written(frame) for frame in query.frames[:3]) or query.instruction.text != TASK
    return read(query) if begun else min(1.0, len(query.frames) / 10)


def test_a_model_that_falls_for_one_kind_of_failure_is_rejected_by_its_name() -> None:
    many = [episode(kind, i) for kind, count in KINDS.items() for i in range(count if kind == "missing" else 20)]
    good, bad = (
        evaluate(Watermark(answer), many, 0, rule=RULE, dt_s=0.1, fitted_on={"success"})
        for answer in (read, falls_for_missing)
    )
    assert good.verdict == "accepted"
    false_done = bad.discrimination.false_done
    assert false_done.count == KINDS["missing"]
    kind = bad.kinds["missing"]
    assert (kind.unseen, kind.false_done.count, kind.false_done.n, kind.final_truth) == (True, 4, 4, 0.0)
    assert kind.final_phi.value > 0.9
    assert good.kinds["missing"].final_phi.value == 0.0
    assert all(of.false_done.count == 0 for name, of in bad.kinds.items() if name != "missing")
    (check,) = (check for check in bad.checks if check.name == "every kind of failure")
    assert check.passed is False
    assert check.found.startswith("missing: 4 of 4 done, AUC ")
    assert bad.verdict == "rejected"


def test_a_kind_that_was_shown_and_one_that_nobody_knows_of_are_told_apart() -> None:
    def unseen(fitted_on: set[str] | None) -> list[bool | None]:
        few = [episode(kind, 0) for kind in ("success", "stall", "drop")]
        found = evaluate(Watermark(read), few, 0, rule=RULE, dt_s=0.1, fitted_on=fitted_on)
        assert {c.name: c.passed for c in found.checks}["every kind of failure"] is None  # of one episode each
        return [found.kinds[kind].unseen for kind in ("drop", "stall")]

    assert unseen({"success", "drop"}) == [False, True]
    assert unseen(None) == [None, None]


def test_two_episodes_of_a_class_prove_nothing() -> None:
    few = [e for e in episodes() if e.kind in ("success", "mismatch")] + [episode("stall", i) for i in range(2)]
    found = evaluate(Watermark(read), few, 0, rule=RULE, dt_s=0.1)
    assert found.nulls["clock"].beaten_on == {"mismatch": True}
    (clock,) = (check for check in found.checks if check.name == "beats the clock")
    assert (clock.found, clock.passed) == ("on mismatch; too few of fail, apart, stall", None)


def test_words_are_those_of_the_task_first() -> None:
    assert report("perfect").words.texts[0] == TASK


def test_canaries_are_not_done_by_a_perfect_model_and_are_by_a_clock() -> None:
    assert sum(canary.called_done.count for canary in report("perfect").canaries.values()) == 0
    assert report("clock").canaries["standing at the start"].called_done.count > 0
    assert sum(canary.called_done.n for canary in report("perfect").canaries.values()) >= 30
