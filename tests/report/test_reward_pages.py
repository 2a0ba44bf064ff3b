"""The pages of an evaluation and of an audit: whole, and they say what the figures say."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reward_models.evaluate.harness import Report, evaluate
from reward_models.interface import ClipQuery
from robot_stack.report.audit_page import write_audit
from robot_stack.report.plots.reward_evaluation import kinds_of, worst
from robot_stack.report.reward_audit import Audit, audit
from robot_stack.report.reward_page import write_reward_page
from robot_stack.report.run_folder import read_run
from robot_stack.types.command import Source
from robot_stack.types.errors import RewardError, StoreError
from robot_stack.types.event import Verdict
from tests.report.fake_run import Played, write_run
from tests.report.test_report_html import Page
from tests.reward_models.test_harness import OnlyDone
from tests.reward_models.watermarked import RULE, Watermark, episodes, read


def misled(query: ClipQuery) -> float:
    if len(query.frames) == 1 and read(query) == 0 and query.frames[0].images["wrist"][1, 1, 0] > 250:
        raise RewardError("the wrist <camera> is blind")
    return 1.0 if query.frames[-1].view("front")[0, 0, 0] > 90 else read(query)


@pytest.fixture(scope="module")
def report() -> Report:
    return evaluate(Watermark(misled), episodes(), 0, rule=RULE, dt_s=0.1)


def test_page_of_an_evaluation_is_whole_and_names_what_is_wrong(report: Report, tmp_path: Path) -> None:
    kept = [e for e in episodes() if e.name not in report.refused]
    path = write_reward_page(
        tmp_path / "a.html", report, kept, title="Reward model <x>", fit_s=12.0, left_out={"000": "not & ended"}
    )
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    sources = [attributes.get("src") for tag, attributes in page.tags if tag == "img"]
    assert len(sources) == 3
    assert all(source is not None and source.startswith("data:image/png;base64,") for source in sources)
    for words in (
        "Reward model <x>",
        "rejected",
        "✗ not met",
        "fitted in 12 s",
        "clock",
        "picture of the goal",
        "not & ended",
    ):
        assert words in page.words
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]


def test_page_of_a_model_without_phi_says_so_and_what_it_costs(report: Report, tmp_path: Path) -> None:
    found = evaluate(OnlyDone(read), episodes(), 0, rule=RULE, dt_s=0.1)
    path = write_reward_page(tmp_path / "a.html", found, episodes(), title="yesno", fit_s=None, left_out={})
    words = Page(path.read_text(encoding="utf-8")).words
    assert "does not say how far an episode is" in words
    assert "1.0 questions a frame. This evaluation asked" in words
    kept = [e for e in episodes() if e.name not in report.refused]
    other = write_reward_page(tmp_path / "b.html", report, kept, title="x", fit_s=None, left_out={})
    assert "does not say how far" not in Page(other.read_text(encoding="utf-8")).words


def test_false_dones_are_looked_at_first(report: Report) -> None:
    first = report.judged[worst(report, 1)[0]]
    assert first.latched is not None
    assert not first.success


def test_without_a_true_progress_the_largest_error_is_that_against_the_outcome(report: Report) -> None:
    right = [one for one in report.judged if (one.latched is not None) == one.success][:4]
    finals = (0.02, 0.3, 0.95, 0.6)
    told = [
        replace(one, phi=np.full_like(one.phi, final), truth=np.full_like(one.truth, np.nan))
        for one, final in zip(right, finals, strict=True)
    ]
    gaps = [abs(one.final - one.success) for one in told]
    assert worst(replace(report, judged=told), 4) == sorted(range(4), key=lambda i: -gaps[i])


def test_kinds_are_shown_in_one_order(report: Report) -> None:
    assert kinds_of(report.judged)[:2] == ["success", "regress_recover"]
    assert kinds_of(report.judged)[-1] == "mismatch"


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Audit]:
    folder = tmp_path_factory.mktemp("runs") / "peg"
    steps = (Source.POLICY,) * 20
    plays = [
        Played(sources=steps, declared=True, truth=False, operator=Verdict.FAILURE),
        Played(sources=steps, declared=False, truth=False),
        Played(sources=steps, declared=False, truth=True),
        *[Played(sources=steps, declared=True, truth=True)] * 6,
    ]
    write_run(folder, plays=plays, stored=9)
    return folder, audit(read_run(folder))


def test_audit_counts_the_models_word_against_the_truth_by_thirds(audited: tuple[Path, Audit]) -> None:
    _, found = audited
    assert list(found.false_done) == [
        "online training, first third",
        "online training, second third",
        "online training, last third",
    ]
    first = found.false_done["online training, first third"], found.missed["online training, first third"]
    assert [(rate.count, rate.n) for rate in first] == [(1, 2), (1, 1)]
    last = found.missed["online training, last third"]
    assert (last.count, last.n) == (0, 3)
    assert set(found.groups) == {"demonstrations", *found.false_done}
    assert found.unscored == 3  # the demonstrations of this run have no frames
    assert found.unlabelled == 0


def test_audit_shows_what_tells_most_once_each(audited: tuple[Path, Audit]) -> None:
    _, found = audited
    assert found.telling[0][0] == "false done"
    assert "missed a success" in [why for why, _ in found.telling]
    names = [one.name for _, one in found.telling]
    assert len(names) == len(set(names))


def test_page_of_an_audit_is_whole_and_beside_its_figures(audited: tuple[Path, Audit], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(audited[0], tmp_path / "peg"))
    page = Page(write_audit(folder).read_text(encoding="utf-8"))
    assert page.open == []
    assert "Reward audit of peg" in page.words
    assert "1 of 2" in page.words
    figures = json.loads((folder / "reward_audit.json").read_text())
    assert figures["false_done"]["online training, first third"]["count"] == 1
    assert figures["opd"]["demonstrations"]["peak"]["value"] is None
    assert figures["telling"][0]["episode"].endswith("online-a0")


def test_run_without_an_episode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"finished episodes of .* are 0"):
        write_audit(tmp_path)


def test_audit_goes_without_frames_and_scores(audited: tuple[Path, Audit], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(audited[0], tmp_path / "peg"))
    shutil.rmtree(folder / "store" / "episodes")
    shutil.rmtree(folder / "store" / "scores")
    found = audit(read_run(folder))
    assert (found.telling, found.false_done_now.n) == ((), 0)
    assert found.false_done["online training, first third"].count == 1
    assert "No episode has both" in write_audit(folder).read_text()
