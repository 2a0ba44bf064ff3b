"""Each family asks what its weights were trained to be asked, and what it reads is what the decoders take."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reward_models.decode import backward_anchor, decode, forward_anchor, fuse, hop_between, remaining_between
from reward_models.interface import ClipQuery, Frame, Instruction, PairQuery, RewardModel, Unsupported
from reward_models.potential import anchor_queries
from reward_models.vlm import grm, lrm, roboreward, vlac, yesno
from reward_models.vlm.config import (
    GrmSettings,
    LrmSettings,
    RoboRewardSettings,
    ServerSettings,
    VlacSettings,
    YesNoSettings,
)
from reward_models.vlm.model import LONGEST_TEXT
from reward_models.vlm.prompt import Answer, Prompt, Token
from robot_stack.types.errors import RewardError
from tests.reward_models.spoken import Spoken, frame, instruction, seen, words

SERVER = ServerSettings(url="http://127.0.0.1:8000/v1", model="any")
PROMPTS = Path(__file__).parent / "prompts"
VIEWS = ("front", "left", "right")
Say = Callable[[Prompt], str | Answer]


def make_vlac(say: Say, **settings: Any) -> vlac.Vlac:
    return vlac.Vlac(Spoken(say), VlacSettings(server=SERVER, **settings), dict(vlac.WORDINGS))


def make_grm(say: Say, **settings: Any) -> grm.Grm:
    return grm.Grm(Spoken(say), GrmSettings(server=SERVER, **settings), dict(grm.WORDINGS))


def make_lrm(say: Say, *questions: Any, **settings: Any) -> lrm.Lrm:
    chosen = questions or ("contrastive", "progress", "completion")
    config = LrmSettings(server=SERVER, adapters=dict.fromkeys(chosen, "any"), **settings)
    return lrm.Lrm({name: Spoken(say, identity=name) for name in chosen}, config, dict(lrm.WORDINGS))


def make_roboreward(say: Say, **settings: Any) -> roboreward.RoboReward:
    config = RoboRewardSettings(server=SERVER, **settings)
    return roboreward.RoboReward(Spoken(say), config, dict(roboreward.WORDINGS))


def make_yesno(say: Say, **settings: Any) -> yesno.YesNo:
    return yesno.YesNo(Spoken(say), YesNoSettings(server=SERVER, **settings), dict(yesno.WORDINGS))


MAKERS: dict[str, Callable[..., Any]] = {
    "vlac": make_vlac, "grm": make_grm, "lrm": make_lrm, "roboreward": make_roboreward, "yesno": make_yesno,
}  # fmt: skip


def pair(before: float, after: float, task: Instruction, start: float = 0.0, views: tuple[str, ...] = ()) -> PairQuery:
    return PairQuery(
        instruction=task, before=frame(before, *views), after=frame(after, *views), start=frame(start, *views)
    )


def clip(*progress: float, task: Instruction | None = None) -> ClipQuery:
    return ClipQuery(instruction=task or instruction(), frames=tuple(frame(p) for p in progress))


def prompts_of(model: Any) -> list[Prompt]:
    return [prompt for backend in model._backends for prompt in backend.prompts]


# What is asked


def ask_all() -> dict[str, Prompt]:
    """Every prompt of every family, asked once."""
    plain, rich = instruction(), instruction(goal=True, reference=4)
    found = {}
    for think in (False, True):
        model = make_vlac(lambda prompt: "0", think=think, references=3)
        model.score_pairs([pair(0.2, 0.6, plain), pair(0.2, 0.6, rich, start=0.1)])
        name = "think" if think else "pair"
        found |= dict(zip((f"vlac_{name}", f"vlac_{name}_reference"), prompts_of(model), strict=True))
    model = make_vlac(lambda prompt: "0")
    model.score_done([clip(0.0, 0.9), clip(0.0, 0.9, task=rich)])
    found |= dict(zip(("vlac_done", "vlac_done_goal"), prompts_of(model), strict=True))
    hop = make_grm(lambda prompt: "", views=VIEWS)
    hop.score_pairs([
        PairQuery(
            instruction=Instruction(text="put the peg into the socket", goal=views_of(1.0)),
            before=views_of(0.2), after=views_of(0.6), start=views_of(0.0),
        )
    ])  # fmt: skip
    found["grm_pair"] = prompts_of(hop)[0]
    three = make_lrm(lambda prompt: "")
    three.score_pairs([pair(0.2, 0.6, plain)])
    three.score_progress([clip(0.0, 0.5, 0.6), clip(0.0, 0.6, task=rich)])
    three.score_done([clip(0.0, 0.9)])
    names = ("lrm_contrastive", "lrm_progress", "lrm_progress_goal", "lrm_completion")
    found |= dict(zip(names, prompts_of(three), strict=True))
    steps = make_roboreward(lambda prompt: "", frames=3)
    steps.score_progress([clip(0.0, 0.1, 0.2, 0.3, 0.4)])
    found["roboreward_progress"] = prompts_of(steps)[0]
    word = make_yesno(lambda prompt: "")
    word.score_done([clip(0.0, 0.9)])
    found["yesno_done"] = prompts_of(word)[0]
    return found


def views_of(progress: float) -> Frame:
    """Three views, told apart by their size."""
    shown = frame(progress, *VIEWS).images
    return Frame(images={view: np.repeat(shown[view], i + 3, axis=1) for i, view in enumerate(VIEWS)})


def test_prompts_are_as_they_were_written_down() -> None:
    asked = ask_all()
    assert sorted(asked) == sorted(path.stem for path in PROMPTS.glob("*.txt"))
    for name, prompt in asked.items():
        assert words(prompt) == (PROMPTS / f"{name}.txt").read_text(encoding="utf-8"), name


def test_vlac_shows_the_reference_then_the_first_image_then_the_pair() -> None:
    model = make_vlac(lambda prompt: "0", references=3)
    model.score_pairs([pair(0.25, 0.75, instruction(reference=5), start=0.1)])
    assert seen(prompts_of(model)[0]) == pytest.approx([0, 0.5, 1, 0.1, 0.25, 0.75], abs=0.01)


def test_a_short_reference_is_shown_whole_and_one_of_a_single_frame_refused() -> None:
    assert vlac.reference_frames(3, 6) == [0, 1, 2]
    with pytest.raises(RewardError, match="reference has 1 frames, must have at least 2"):
        vlac.reference_frames(1, 6)


@pytest.mark.parametrize("views", [("front",), ("front", "left"), VIEWS])
def test_grm_is_shown_eight_images_whatever_cameras_there_are(views: tuple[str, ...]) -> None:
    task = Instruction(text="pour", goal=views_of(1.0))
    model = make_grm(lambda prompt: "<score>+10%</score>", views=views)
    query = PairQuery(instruction=task, before=views_of(0.25), after=views_of(0.5), start=views_of(0.0))
    assert model.score_pairs([query])[0].value == pytest.approx(0.1)
    (prompt,) = prompts_of(model)
    assert seen(prompt) == pytest.approx([0, 1, *[0.25] * 3, *[0.5] * 3], abs=0.01)
    widths = [part.shape[1] for part in prompt.user if not isinstance(part, str)]
    assert len(set(widths[2:5])) == len(views)
    assert widths[2:5] == widths[5:8]


def test_with_the_goal_as_before_the_wrist_images_are_the_goals_own() -> None:
    task = Instruction(text="pour", goal=views_of(1.0))
    _, _, backward = anchor_queries(task, [views_of(0.0), views_of(0.5)])
    model = make_grm(lambda prompt: "<score>-50%</score>", views=VIEWS)
    model.score_pairs(backward[1:])
    (prompt,) = prompts_of(model)
    assert seen(prompt)[2:5] == pytest.approx([1, 1, 1], abs=0.01)
    shapes = [part.shape for part in prompt.user if not isinstance(part, str)]
    assert shapes[2:5] == shapes[5:8]


def test_a_goal_that_lacks_a_wrist_view_is_refused_as_before() -> None:
    task = Instruction(text="pour", goal=frame(1.0, "front"))
    _, _, backward = anchor_queries(task, [views_of(0.0), views_of(0.5)])
    with pytest.raises(RewardError, match="view left is missing"):
        make_grm(lambda prompt: "", views=VIEWS).score_pairs(backward)


def test_no_image_is_larger_than_the_model_was_trained_on() -> None:
    large = Frame(images={"front": np.zeros((480, 640, 3), np.uint8)})
    task = Instruction(text="pour", goal=large)
    model = make_grm(lambda prompt: "")
    model.score_pairs([PairQuery(instruction=task, before=large, after=large, start=large)])
    areas = [p.shape[0] * p.shape[1] for p in prompts_of(model)[0].user if not isinstance(p, str)]
    assert len(areas) == 8
    assert max(areas) <= 76_800


# What is read


def wave() -> np.ndarray:
    """Progress that rises, falls and rises to the end."""
    return np.array([0.0, 0.1, 0.3, 0.55, 0.5, 0.25, 0.4, 0.7, 0.9, 1.0])


def say_hop(prompt: Prompt) -> str:
    before, after = seen(prompt)[2], seen(prompt)[5]
    return f"<score>{100 * hop_between(before, after):+.1f}%</score>"


def test_three_anchors_of_a_model_that_sees_right_are_the_true_progress() -> None:
    task, truth = instruction(goal=True), wave()
    frames = [frame(p) for p in truth]
    model = make_grm(say_hop)
    hops, forward, backward = (
        np.array([score.value for score in model.score_pairs(queries)]) for queries in anchor_queries(task, frames)
    )
    np.testing.assert_allclose(decode(hops, start=0.0, semantics=model.capabilities.pair), truth, atol=0.02)  # type: ignore[arg-type]
    f, b = forward_anchor(forward), backward_anchor(backward)
    for mode in ("mean", "gated"):
        fused = fuse(hops, f, b, mode=mode, alpha=20.0)  # type: ignore[arg-type]
        np.testing.assert_allclose(fused, truth, atol=0.03 if mode == "mean" else 0.15)


def test_anchors_need_a_goal() -> None:
    with pytest.raises(RewardError, match="goal image is missing"):
        anchor_queries(instruction(), [frame(0.0)])


@pytest.mark.parametrize("references", range(2, 12))
def test_vlac_is_shown_each_image_of_a_demonstration_with_its_own_progress(references: int) -> None:
    model = make_vlac(lambda prompt: "0", references=references)
    model.score_pairs([pair(0.2, 0.6, instruction(reference=11))])
    (prompt,) = prompts_of(model)
    said = "".join(part for part in prompt.user if isinstance(part, str))
    told = np.array(re.findall(r"^(\d+)%: $", said, re.MULTILINE), np.float64)
    np.testing.assert_allclose(told, 100 * np.array(seen(prompt)[:references]), atol=0.5)


@pytest.mark.parametrize("soft", [False, True])
def test_vlac_of_a_model_that_sees_right_decodes_to_the_true_progress(soft: bool) -> None:
    truth = np.array([0.0, 0.1, 0.3, 0.55, 0.7, 0.6, 0.9])
    task = instruction()
    model = make_vlac(lambda prompt: f"{100 * remaining_between(*seen(prompt)):+.1f}", soft=soft)
    scores = model.score_pairs([pair(a, b, task) for a, b in itertools.pairwise(truth)])
    values = np.array([score.value for score in scores])
    np.testing.assert_allclose(decode(values, start=0.0, semantics="remaining"), truth, atol=0.02)
    assert scores[0].raw.startswith("+")
    assert scores[0].latency_s >= 0


def test_vlac_that_thinks_says_a_score_and_progress() -> None:
    said = "<think>The peg is nearer.\nfirst image progressing: 20%\nsecond image progressing: 60%</think>50"
    model = make_vlac(lambda prompt: said, think=True)
    assert model.score_pairs([pair(0.2, 0.6, instruction())])[0].value == pytest.approx(0.5)
    assert model.score_progress([clip(0.0, 0.3, 0.6)])[0].value == pytest.approx(0.6)
    assert seen(prompts_of(model)[1]) == pytest.approx([0.0, 0.6], abs=0.01)
    soft = make_vlac(lambda prompt: said, think=True, soft=True)
    assert soft.score_pairs([pair(0.2, 0.6, instruction())])[0].value == pytest.approx(0.5)
    for unfinished in ("<think>The peg", "50"):
        for model in (make_vlac(lambda prompt, s=unfinished: s, think=True, soft=soft) for soft in (False, True)):  # type: ignore[misc]
            assert math.isnan(model.score_pairs([pair(0.2, 0.6, instruction())])[0].value)


def test_vlac_that_does_not_think_has_no_progress() -> None:
    with pytest.raises(
        Unsupported, match=r"progress question to vlac has no answer, must be one of \['pair', 'done'\]"
    ):
        make_vlac(lambda prompt: "0").score_progress([clip(0.5)])


def test_vlac_says_done() -> None:
    model = make_vlac(lambda prompt: "1" if seen(prompt)[-1] > 0.9 else "0")
    assert [s.value for s in model.score_done([clip(0.0, 1.0), clip(0.0, 0.5)])] == [1.0, 0.0]
    top = (("1", math.log(0.3)), ("0", math.log(0.6)))
    soft = make_vlac(lambda prompt: Answer(text="0", tokens=(Token(text="0", top=top),)), soft=True)
    assert soft.score_done([clip(1.0)])[0].value == pytest.approx(1 / 3)


def test_lrm_answers_with_a_sign_progress_and_done() -> None:
    def say(prompt: Prompt) -> str:
        images = seen(prompt)
        if "ImageA" in str(prompt.user[0]):
            return '{"more_complete_image": "Image%s"}' % ("B" if images[1] > images[0] else "A")
        if "First image" in str(prompt.user[0]):
            return f'{{"completion_progress": {images[-1]:.2f}}}'
        return '{"task_completed": "%s"}' % ("yes" if images[-1] > 0.9 else "no")

    model = make_lrm(say)
    assert model.capabilities.pair == "sign"
    signs = model.score_pairs([pair(0.2, 0.6, instruction()), pair(0.6, 0.2, instruction())])
    assert [score.value for score in signs] == [1.0, -1.0]
    assert model.score_progress([clip(0.0, 0.5)])[0].value == pytest.approx(0.5, abs=0.01)
    assert [score.value for score in model.score_done([clip(1.0), clip(0.5)])] == [1.0, 0.0]


@pytest.mark.parametrize("only", ["contrastive", "progress", "completion"])
def test_lrm_answers_only_what_it_has_an_adapter_for(only: str) -> None:
    model = make_lrm(lambda prompt: "", only)
    asks: dict[str, Callable[[], object]] = {
        "contrastive": lambda: model.score_pairs([pair(0.0, 1.0, instruction())]),
        "progress": lambda: model.score_progress([clip(1.0)]),
        "completion": lambda: model.score_done([clip(1.0)]),
    }
    asks.pop(only)()
    for ask in asks.values():
        with pytest.raises(Unsupported, match="question to lrm has no answer"):
            ask()


def test_roboreward_looks_at_frames_up_to_the_last() -> None:
    model = make_roboreward(lambda prompt: f"ANSWER: {1 + round(4 * seen(prompt)[-1])}", frames=3)
    scores = model.score_progress([clip(*np.linspace(0, p, 9)) for p in (0.0, 0.5, 1.0)])
    assert [score.value for score in scores] == [0.0, 0.5, 1.0]
    assert [len(seen(prompt)) for prompt in prompts_of(model)] == [3, 3, 3]


def test_yesno_reads_a_probability_from_the_first_word_even_of_a_sentence() -> None:
    top = (("Yes", math.log(0.6)), ("No", math.log(0.2)))
    answer = Answer(text="Yes, it", tokens=(Token(text="Yes", top=top),), complete=False)
    model = make_yesno(lambda prompt: answer)
    assert model.score_done([clip(1.0)])[0].value == pytest.approx(0.75)
    assert model._backend.max_tokens == [yesno.LONGEST_ANSWER]  # type: ignore[attr-defined]


# What is not read


def every_question(model: RewardModel) -> list[Any]:
    """Scores of whatever it can be asked."""
    scores: list[Any] = []
    task = instruction(goal=True)
    if model.capabilities.pair:
        scores += model.score_pairs([pair(0.2, 0.6, task)])
    if model.capabilities.progress:
        scores += model.score_progress([clip(0.2, 0.6, task=task)])
    if model.capabilities.done:
        scores += model.score_done([clip(0.2, 0.6, task=task)])
    return scores


@pytest.mark.parametrize("family", MAKERS)
@pytest.mark.parametrize("said", ["I cannot judge this.", "", "{}", "Error"])
def test_an_unreadable_answer_is_not_zero(family: str, said: str) -> None:
    scores = every_question(MAKERS[family](lambda prompt: said))
    assert scores
    for score in scores:
        assert not score.valid
        assert math.isnan(score.value)
        assert score.raw == said


@pytest.mark.parametrize("family", ["vlac", "grm", "lrm", "roboreward"])
def test_an_answer_that_was_cut_off_is_not_read(family: str) -> None:
    every = '4 {"completion_progress": 0.4} {"task_completed": "no"} {"more_complete_image": "ImageA"} ANSWER: 4'
    texts = {"vlac": "1", "grm": "<score>+4%</score>"}
    text = texts.get(family, every)
    whole = every_question(MAKERS[family](lambda prompt: Answer(text=text)))
    cut = every_question(MAKERS[family](lambda prompt: Answer(text=text, complete=False)))
    assert all(score.valid for score in whole)
    assert not any(score.valid for score in cut)


def test_an_answer_longer_than_any_model_means_is_not_read() -> None:
    said = "<score>+10%</score>"
    queries = [pair(0.2, 0.4, instruction(goal=True))]
    for blanks, valid in ((LONGEST_TEXT - len(said), True), (LONGEST_TEXT, False)):
        (score,) = make_grm(lambda prompt, blanks=blanks: " " * blanks + said).score_pairs(queries)
        assert (score.valid, score.lost) == (valid, False)
    yes = (Token(text="yes", top=(("yes", 0.0),)),)
    for count, valid in ((LONGEST_TEXT // 3, True), (LONGEST_TEXT, False)):
        model = make_yesno(lambda prompt, count=count: Answer(text="yes", tokens=yes * count))
        (score,) = model.score_done([clip(1.0)])
        assert (score.valid, score.lost) == (valid, False)


@pytest.mark.parametrize("family", MAKERS)
def test_a_question_without_an_answer_says_why(family: str) -> None:
    scores = every_question(MAKERS[family](lambda prompt: Answer(problem="no answer within 3 s")))
    assert [score.raw for score in scores] == ["no answer within 3 s"] * len(scores)
    assert not any(score.valid for score in scores)
    assert all(score.lost for score in scores), "it is asked again"
    garbled = every_question(MAKERS[family](lambda prompt: Answer(text="ehm")))
    assert not any(score.valid or score.lost for score in garbled)


@pytest.mark.parametrize("family", MAKERS)
def test_nothing_asked_is_nothing_answered(family: str) -> None:
    model = MAKERS[family](lambda prompt: "")
    for able, ask in (
        (model.capabilities.pair, model.score_pairs),
        (model.capabilities.progress, model.score_progress),
        (model.capabilities.done, model.score_done),
    ):
        assert not able or ask([]) == []
    assert prompts_of(model) == []


@pytest.mark.parametrize("family", MAKERS)
def test_a_frame_without_the_view_is_refused_before_anything_is_asked(family: str) -> None:
    model = MAKERS[family](lambda prompt: "")
    other = Frame(images={"wrist": frame(0.5).images["front"]})
    task = instruction(goal=True)
    query = PairQuery(instruction=task, before=other, after=other, start=other)
    clips = [ClipQuery(instruction=task, frames=(other,))]
    for able, ask in (
        (model.capabilities.pair, lambda: model.score_pairs([query])),
        (model.capabilities.progress, lambda: model.score_progress(clips)),
        (model.capabilities.done, lambda: model.score_done(clips)),
    ):
        if able:
            with pytest.raises(RewardError, match="view front is missing"):
                ask()
    assert prompts_of(model) == []


def test_grm_without_a_goal_is_refused() -> None:
    with pytest.raises(RewardError, match="goal image is missing, must show the finished task"):
        make_grm(lambda prompt: "").score_pairs([pair(0.0, 0.5, instruction())])


# Identity


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("vlac", {"references": 4}), ("vlac", {"soft": True}), ("vlac", {"think": True}), ("vlac", {"view": "side"}),
        ("grm", {"views": ("front", "left")}), ("grm", {"max_pixels": 50_000}),
        ("lrm", {"view": "side"}), ("lrm", {"max_pixels": 50_000}),
        ("roboreward", {"frames": 8}), ("roboreward", {"view": "side"}), ("roboreward", {"max_pixels": 50_000}),
        ("yesno", {"view": "side"}), ("yesno", {"max_pixels": 50_000}),
    ],
)  # fmt: skip
def test_a_setting_that_changes_answers_changes_the_version(family: str, change: dict[str, Any]) -> None:
    make = MAKERS[family]
    assert make(str).version == make(str).version != make(str, **change).version


def test_weights_and_wording_are_part_of_the_version() -> None:
    settings = VlacSettings(server=SERVER)
    first = vlac.Vlac(Spoken(str), settings, dict(vlac.WORDINGS))
    other_weights = vlac.Vlac(Spoken(str, identity="other"), settings, dict(vlac.WORDINGS))
    other_words = vlac.Vlac(Spoken(str), settings, vlac.WORDINGS | {"done": vlac.WORDINGS["done_goal"]})
    assert len({first.version, other_weights.version, other_words.version}) == 3
    assert make_lrm(str).version != make_lrm(str, "progress").version


def test_closing_a_model_closes_its_backends_and_the_worst_breaker_shows() -> None:
    model = make_lrm(str)
    assert model.breaker == "closed"
    for state in ("half-open", "open"):
        next(iter(model._asked.values())).breaker = state  # type: ignore[misc, assignment]
        assert model.breaker == state
    model.close()
    assert all(backend.closed for backend in model._asked.values())  # type: ignore[attr-defined]
