"""A large model's preferences: asked over HTTP both ways round, logged as a model's, and learned from like others."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_stack.cli.main import main
from robot_stack.learner.reward.preferring import further
from robot_stack.replay.annotations import read_preferences
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.layout import StorePaths
from robot_stack.types.command import Source
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.preferences import Further, Preference
from robot_stack.types.transition import back_id
from tests.learner.bench import SPEC, TASK, header_of, label_of, steps_of
from tests.reward_models import seeing_server
from tests.reward_models.bad_server import Handler, Server, chat, hangs_up, says
from tests.reward_models.seeing_server import sees
from tests.reward_models.spoken import BRIGHT, DIM

FRAMES = 9
SUCCESS, FAILURE = "000000-online-a", "000001-online-a"
PROGRESS = {
    SUCCESS: np.linspace(0.0, 1.0, FRAMES),
    FAILURE: np.concatenate([np.linspace(0.0, 0.6, 5), np.linspace(0.5, 0.2, FRAMES - 5)]),
}
"""The second one loses what it had; its brightness says so and its clock does not."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "set"
    with EpisodeStore(folder, SPEC, TASK) as store:
        for name, progress in PROGRESS.items():
            store.begin(header_of(name))
            for step, shown in zip(steps_of(name, [Source.POLICY] * (FRAMES - 1)), progress, strict=True):
                grey = np.full((8, 8, 3), round(DIM + (BRIGHT - DIM) * shown), np.uint8)
                store.append(replace(step, observation=replace(step.observation, images={"front": grey})))
        store.append_label(label_of(SUCCESS, Verdict.SUCCESS))
        store.append_label(label_of(FAILURE, Verdict.FAILURE))
    return folder


@pytest.fixture
def data(recorded: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recorded, tmp_path / "set")


def settings_of(folder: Path, server: Server, **more: object) -> Path:
    path = folder / "settings.yaml"
    path.write_text(json.dumps({"server": {"url": server.url, "model": "any"}, **more}))
    return path


def prefer(data: Path, settings: Path, model: str, *more: str) -> int:
    arguments = ["--model", model, "--settings", str(settings), "--pairs", "12", *more]
    return main(["reward", "prefer", str(data), *arguments])


def logged(data: Path) -> tuple[Preference, ...]:
    return tuple(read_preferences(StorePaths(data).preferences).rows)


def truth_of(preference: Preference) -> float:
    return float(
        PROGRESS[preference.second.episode_id][preference.second.frame]
        - PROGRESS[preference.first.episode_id][preference.first.frame]
    )


@pytest.mark.long
def test_a_model_that_only_tells_which_is_further_orders_moments_of_an_episode(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(sees(seeing_server.lrm_further)) as server:
        settings = settings_of(tmp_path, server, adapters={"contrastive": "a"})
        assert prefer(data, settings, "lrm", "--json") == 0
        asked = len(server.bodies)
    found = json.loads(capsys.readouterr().out)
    said = logged(data)
    assert found["answered"] == len(said) == 12
    assert asked == 24  # both ways round
    assert {each.source for each in said} == {LabelSource.MODEL}
    assert {each.by for each in said} == {found["by"]}
    assert found["by"].startswith("lrm ")
    assert {each.first.episode_id for each in said} == set(PROGRESS)
    for each in said:
        assert each.first.episode_id == each.second.episode_id
        assert (each.further is Further.SECOND) is (truth_of(each) > 0)
    regressed = [each for each in said if (truth_of(each) > 0) != (each.second.frame > each.first.frame)]
    assert regressed  # it is not the clock that answered


@pytest.mark.long
def test_a_model_of_progress_orders_moments_of_two_episodes(data: Path, tmp_path: Path) -> None:
    with Server(sees(seeing_server.lrm)) as server:
        assert prefer(data, settings_of(tmp_path, server, adapters={"progress": "a"}), "lrm") == 0
    said = logged(data)
    assert len(said) == 12
    assert all(each.first.episode_id != each.second.episode_id for each in said)
    for each in said:
        expected = Further.SAME if abs(truth_of(each)) < 0.04 else None
        if expected is not None or abs(truth_of(each)) > 0.06:
            wanted = expected or (Further.SECOND if truth_of(each) > 0 else Further.FIRST)
            assert each.further is wanted


@pytest.mark.long
def test_an_answer_that_keeps_its_place_is_none_and_is_not_asked_again(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(says('{"more_complete_image": "ImageB"}')) as server:
        settings = settings_of(tmp_path, server, adapters={"contrastive": "a"})
        assert prefer(data, settings, "lrm", "--json") == 0
        first = logged(data)
        assert prefer(data, settings, "lrm", "--json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (found["answered"], found["contradicted"]) == (0, 12)
    assert {each.further for each in first} == {Further.UNKNOWN}
    pairs = [frozenset((each.first, each.second)) for each in logged(data)]
    assert len(pairs) == len(set(pairs)) == 24


@pytest.mark.long
def test_each_task_is_told_in_its_own_words_and_shown_by_its_own_success(tmp_path: Path) -> None:
    back = [f"00000{number}-online-a" for number in (2, 3)]
    with EpisodeStore(tmp_path / "set", SPEC, TASK) as store:
        for name in (SUCCESS, FAILURE, *back):
            task_id = back_id(TASK) if name in back else TASK
            store.begin(replace(header_of(name), task_id=task_id))
            for step in steps_of(name, [Source.POLICY] * (FRAMES - 1)):
                store.append(step)
            store.append_label(label_of(name, Verdict.SUCCESS))
    told: list[str] = []

    def listens(handler: Handler, body: dict[str, Any]) -> None:
        told.append("".join(part.get("text", "") for part in body["messages"][-1]["content"]))
        handler.reply(200, json.dumps(chat("<score>+10%</score>")).encode())

    with Server(listens) as server:
        assert prefer(tmp_path / "set", settings_of(tmp_path, server), "grm") == 0
    asked = {moment.episode_id for each in logged(tmp_path / "set") for moment in (each.first, each.second)}
    assert asked == {FAILURE, back[1]}  # the first of each task was shown
    assert {f"undo: {TASK}" in text for text in told} == {True, False}
    assert all(TASK in text for text in told)


@pytest.mark.long
def test_what_cannot_be_read_is_counted_and_not_logged(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(says("I would rather not say")) as server:
        settings = settings_of(tmp_path, server, adapters={"contrastive": "a"})
        assert prefer(data, settings, "lrm", "--json") == 0
    assert json.loads(capsys.readouterr().out)["unreadable"] == 12
    assert logged(data) == ()


@pytest.mark.long
def test_a_model_that_is_shown_a_demonstration_is_not_asked_about_it(data: Path, tmp_path: Path) -> None:
    with Server(sees(seeing_server.grm)) as server:
        assert prefer(data, settings_of(tmp_path, server), "grm") == 0
    said = logged(data)
    assert {each.first.episode_id for each in said} == {FAILURE}
    for each in said:
        assert each.further in (Further.SAME, Further.SECOND if truth_of(each) > 0 else Further.FIRST)


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("progress", "{}", "reward model is 'progress', must be a large one: a fitted one would be asked about what"),
        ("yesno", None, "reward model yesno scores neither pairs nor progress, must score one of them"),
        ("lrm", "{adapters: {contrastive: a}}", "one of weights (in this process) and server"),
        ("lmr", "{}", "did you mean 'lrm'"),
    ],
)
def test_a_model_that_cannot_order_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, settings: str | None, words: str
) -> None:
    with Server(says("yes")) as server:
        path = settings_of(tmp_path, server)
        if settings is not None:
            path.write_text(settings)
        assert prefer(data, path, model) == 1
        assert server.bodies == []
    assert words in " ".join(capsys.readouterr().err.split())
    assert logged(data) == ()


def test_a_server_that_hangs_up_ends_it_and_what_was_said_before_is_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reward_models.vlm.endpoint.BACKOFF_S", 0.01)
    good = [sees(seeing_server.lrm_further)] * 6
    with Server(*good, hangs_up) as server:
        settings = settings_of(tmp_path, server, adapters={"contrastive": "a"})
        code = prefer(data, settings, "lrm", "--json")
    assert len(logged(data)) == 3
    assert code == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_without_two_moments_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EpisodeStore(tmp_path / "none", SPEC, TASK):
        pass
    with Server(says("ImageA")) as server:
        settings = settings_of(tmp_path, server, adapters={"contrastive": "a"})
        assert prefer(tmp_path / "none", settings, "lrm") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "pairs of moments in none that were not asked about are 0, must be 1 at least" in said


@pytest.mark.parametrize(
    ("forward", "backward", "answer"),
    [
        (1.0, -1.0, Further.SECOND),
        (-0.4, 0.1, Further.FIRST),
        (0.3, 0.0, Further.UNKNOWN),
        (0.04, -0.04, Further.SAME),
        (float("nan"), 1.0, None),
        (1.0, float("nan"), None),
    ],
)
def test_two_scores_of_a_pair_are_one_answer(forward: float, backward: float, answer: Further | None) -> None:
    assert further(forward, backward) is answer
