"""A large model is not asked about black images or swapped cameras, and each such question is refused in words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from reward_models.interface import LONGEST_TEXT, ClipQuery, Frame, Instruction, PairQuery
from reward_models.potential import questions
from reward_models.service import ScoringService
from reward_models.vlm.guard import Guarded, is_black, swapped
from reward_models.vlm.registry import make_reward_model
from robot_stack.types.errors import RewardError
from tests.reward_models import seeing_server
from tests.reward_models.bad_server import Server
from tests.reward_models.seeing_server import sees
from tests.reward_models.spoken import frame, instruction


def scene(progress: float) -> Frame:
    """Two cameras that look at different things, in which a square moves."""
    rng = np.random.default_rng(0)
    images = {view: rng.integers(40, 200, (32, 32, 3), np.uint8) for view in ("front", "wrist")}
    at = round(20 * progress)
    for image in images.values():
        image[at : at + 8, at : at + 8] = 255
    return Frame(images=images)


def crossed(shown: Frame) -> Frame:
    return Frame(images={"front": shown.images["wrist"], "wrist": shown.images["front"]})


def lights_out(shown: Frame, view: str = "front") -> Frame:
    noise = np.random.default_rng(0).integers(0, 12, shown.images[view].shape, np.uint8)
    return replace(shown, images={**shown.images, view: noise})


SCENE = Instruction(text="move the square", goal=scene(1.0), reference=(scene(0.0), scene(1.0)))


def grm(server: Server, **settings: object) -> Guarded:
    model = make_reward_model("grm", {"server": {"url": server.url, "model": "any"}, **settings})
    assert isinstance(model, Guarded)
    return model


def test_a_black_image_is_no_question() -> None:
    task = instruction(goal=True)
    dark = lights_out(frame(0.5))
    with Server(sees(seeing_server.grm)) as server:
        model = grm(server)
        scores = model.score_pairs(
            [
                PairQuery(instruction=task, start=frame(0.0), before=frame(0.0), after=after)
                for after in (frame(0.5), dark)
            ]
        )
        assert scores[0].value == pytest.approx(0.5, abs=0.02)
        assert math.isnan(scores[1].value)
        assert (scores[1].raw, scores[1].lost) == ("view front is black", False)
        assert len(server.bodies) == 1
        both = [PairQuery(instruction=task, start=dark, before=dark, after=dark)]
        assert math.isnan(model.score_pairs(both)[0].value)
        assert len(server.bodies) == 1


def test_a_black_camera_that_the_model_is_not_shown_does_not_matter() -> None:
    shown = lights_out(scene(0.5), "wrist")
    with Server(sees(seeing_server.grm)) as server:
        query = PairQuery(instruction=SCENE, start=scene(0.0), before=scene(0.0), after=shown)
        assert grm(server).score_pairs([query])[0].valid
        assert not grm(server, views=["front", "wrist"]).score_pairs([query])[0].valid


@pytest.mark.parametrize(
    ("family", "settings", "dark", "valid"),
    [
        ("lrm", {"adapters": {"progress": "p"}}, 0, False),
        ("lrm", {"adapters": {"progress": "p"}}, 2, True),
        ("vlac", {"think": True, "accept_license": "cc-by-nc-sa-4.0"}, 0, False),
        ("roboreward", {}, 0, False),
        ("roboreward", {}, 2, False),
        ("roboreward", {"frames": 3}, 1, True),  # it is shown the first, the middle one and the last of five
        ("roboreward", {"frames": 3}, 2, False),
    ],
)
def test_a_clip_is_asked_about_by_the_frames_that_the_model_is_shown(
    family: str, settings: dict[str, object], dark: int, valid: bool
) -> None:
    frames = [frame(p) for p in (0.0, 0.2, 0.4, 0.6, 0.8)]
    frames[dark] = lights_out(frames[dark])
    answer = seeing_server.roboreward if family == "roboreward" else seeing_server.lrm
    with Server(sees(answer)) as server:
        model = make_reward_model(family, {"server": {"url": server.url, "model": "any"}, **settings})
        (score,) = model.score_progress([ClipQuery(instruction=instruction(), frames=tuple(frames))])
    assert (score.valid, score.raw == "view front is black") == (valid, not valid)


def test_swapped_cameras_that_the_model_is_not_shown_do_not_matter() -> None:
    images = {f"wrist_{n}": np.random.default_rng(n).integers(40, 200, (32, 32, 3), np.uint8) for n in range(2)}
    right = Frame(images=scene(0.5).images | images)
    wrong = Frame(images=scene(0.5).images | {"wrist_0": images["wrist_1"], "wrist_1": images["wrist_0"]})
    task = Instruction(text="move the square", goal=right, reference=(right,))
    with Server(sees(seeing_server.grm)) as server:
        query = PairQuery(instruction=task, start=right, before=right, after=wrong)
        assert grm(server).score_pairs([query])[0].valid
        (score,) = grm(server, views=["front", "wrist_1"]).score_pairs([query])
        assert score.raw == "views wrist_0 and wrist_1 are swapped"


def test_swapped_cameras_are_no_question() -> None:
    with Server(sees(seeing_server.grm)) as server:
        model = grm(server)
        query = PairQuery(instruction=SCENE, start=scene(0.0), before=scene(0.0), after=crossed(scene(0.4)))
        (score,) = model.score_pairs([query])
        assert math.isnan(score.value)
        assert score.raw == "views front and wrist are swapped"
        assert server.bodies == []


def test_the_service_counts_what_it_refused_and_goes_on() -> None:
    with Server(sees(seeing_server.grm)) as server:
        service = ScoringService(grm(server), cache_path=None, wait_ms=1.0)
        service.start()
        frames = [scene(0.0), lights_out(scene(0.5)), crossed(scene(0.5)), scene(1.0)]
        steps = questions(frames, SCENE, service._model.capabilities).backward
        assert steps is not None
        ticket = service.submit(steps, "pair")
        assert ticket.wait(30.0)
        valid = [score.valid for score in ticket.scores or []]
        stats = service.stats()
        service.close()
    assert valid == [True, False, False, True]
    assert (stats.unreadable, stats.failed) == (2, 0)


@pytest.mark.parametrize("progress", [0.0, 0.3, 0.7, 1.0])
def test_what_is_right_is_not_called_swapped(progress: float) -> None:
    assert swapped(scene(progress), (scene(0.0), scene(1.0)), ()) is None
    assert swapped(crossed(scene(progress)), (scene(0.0), scene(1.0)), ()) == ("front", "wrist")
    assert swapped(crossed(scene(progress)), (), ()) is None
    assert swapped(frame(progress), (frame(0.0),), ()) is None


def test_a_dim_scene_is_not_black() -> None:
    rng = np.random.default_rng(0)
    assert is_black(rng.integers(0, 14, (32, 32, 3), np.uint8))
    assert not is_black(rng.integers(0, 40, (32, 32, 3), np.uint8))


def test_a_task_of_a_hundred_kilobytes_is_refused() -> None:
    with pytest.raises(RewardError, match="task text has 100000 characters, must have at most 2000"):
        Instruction(text="put it in. "[:10] * 10_000)
    assert Instruction(text="x" * LONGEST_TEXT).text


def test_no_question_is_no_request() -> None:
    with Server(sees(seeing_server.roboreward)) as server:
        model = make_reward_model("roboreward", {"server": {"url": server.url, "model": "any"}})
        assert model.score_progress([]) == []
        (score,) = model.score_progress([ClipQuery(instruction=instruction(), frames=(frame(1.0),))])
        assert score.value == 1.0
