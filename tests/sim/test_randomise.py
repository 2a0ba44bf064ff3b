"""What a scene varies is what its file says and nothing else, is the same for every policy, and is off by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.control.action_space import ActionSpace
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell, build_world, placed_arms, scene_settings
from robot_stack.workcell.local_cell import LocalCell
from robot_stack.workcell.sim_camera import SimCamera
from robot_stack.workcell.variations import rows, words
from sim.cell import find_task
from sim.randomise import RandomiseConfig
from sim.scene import build_model
from sim.world import UnstableScene, World

SEED = 3
NEARLY = 0.1
"""Mean difference, of 255, of two images of one reset: edges move by a hair as the arms settle."""


def asked(**train: Any) -> list[str]:
    """Ranges of training, and others held out that are beyond them, as the files must have."""
    factors, found = RandomiseConfig().factors, []
    for name, (low, high) in train.items():
        most = factors[name].legal[1]
        held_out = f", held_out: [{most}, {most}]"
        found.append(f"task.sim.randomise.{name}={{train: [{low}, {high}]{held_out}}}")
    return found


def made(*overrides: str, run: str = "peg_insert") -> LocalCell:
    cell = build_local_cell(load_run(run, overrides), seed=0)
    assert isinstance(cell, LocalCell)
    return cell


def seen(cell: LocalCell, seed: int = SEED, camera: str = "front") -> np.ndarray:
    cell.reset(seed)
    observation = cell.observe()
    assert observation is not None
    return observation.images[camera].astype(float)


@pytest.fixture(scope="module")
def plain() -> LocalCell:
    return made()


@pytest.mark.parametrize("run", ["peg_insert", "pick_insert", "drawer", "two_arm_insert"])
def test_without_a_word_of_it_the_scene_is_the_same_bit_for_bit(run: str) -> None:
    resolved = load_run(run)
    assert "randomise" not in resolved.task.sim
    assert RandomiseConfig().varying == ()
    world, off = build_world(resolved), build_world(load_run(run, asked(light=(1, 1), distractors=(0, 0))))
    task = find_task(resolved.task.simulated)
    bare = build_model(placed_arms(resolved), task.build(scene_settings(resolved)), RandomiseConfig())
    sizes = [mujoco.mj_sizeModel(model) for model in (world.model, off.model, bare)]
    assert len(set(sizes)) == 1
    for one in (world, off):
        one.reset(SEED)
    np.testing.assert_array_equal(world.snapshot(), off.snapshot())
    parts = 5 - (world.data.mocap_pos.size == 0)
    assert len(world._shown()) == 5 >= parts
    assert world.snapshot().size == sum(part.size for part in world._shown())


def test_less_light_makes_a_darker_image_of_the_same_scene(plain: LocalCell) -> None:
    bright, dim = seen(plain), seen(made(*asked(light=(0.7, 0.7))))
    assert dim.mean() < 0.85 * bright.mean()
    assert np.corrcoef(bright.ravel(), dim.ravel())[0, 1] > 0.97


def test_tint_changes_the_colours_unlike(plain: LocalCell) -> None:
    ratio = seen(made(*asked(tint=(0.4, 0.4)))).mean(axis=(0, 1)) / seen(plain).mean(axis=(0, 1))
    assert np.ptp(ratio) > 0.03


def test_noise_is_on_the_image_alone(plain: LocalCell) -> None:
    noisy = made(*asked(noise=(8, 8)))
    difference = seen(noisy) - seen(plain)
    assert 5.0 < np.std(difference) < 8.5  # cut off at black and white
    np.testing.assert_allclose(plain.world.data.qpos, noisy.world.data.qpos, atol=5e-3)


def test_cameras_move_by_as_much_as_is_said_and_never_add_up(plain: LocalCell) -> None:
    moved = made(*asked(camera_shift_m=(0.01, 0.01), camera_tilt_rad=(0.035, 0.035)))
    first = seen(moved)
    before, now = plain.world.model, moved.world.model
    np.testing.assert_allclose(np.linalg.norm(now.cam_pos - before.cam_pos, axis=1), 0.01)
    for one, other in zip(before.cam_quat, now.cam_quat, strict=True):
        assert 2 * np.arccos(min(1.0, abs(float(one @ other)))) == pytest.approx(0.035, abs=1e-4)
    assert np.abs(first - seen(plain)).mean() > 1.0
    seen(moved, SEED + 1)
    assert np.abs(seen(moved) - first).mean() < NEARLY


def test_distractors_stand_on_the_table_and_touch_nothing(plain: LocalCell) -> None:
    crowded = made(*asked(distractors=(2, 4)))
    counts = set()
    for seed in range(12):
        crowded.world.reset(seed)
        heights = [crowded.world.data.body(f"distractor{number}").xpos[2] for number in range(4)]
        counts.add(sum(height > 0 for height in heights))
        cubes = np.array([crowded.world.data.body(f"distractor{number}").xpos[:2] for number in range(4)])
        assert np.linalg.norm(cubes - crowded.world.data.body("socket").xpos[:2], axis=1).min() >= 0.08
    assert counts == {2, 3, 4}
    model = crowded.world.model
    assert model.ngeom == plain.world.model.ngeom + 4
    assert not model.geom_contype[-4:].any()
    three = made(*asked(distractors=(3, 3)))
    assert np.abs(seen(three) - seen(plain)).max() > 60
    np.testing.assert_allclose(three.world.data.qpos, plain.world.data.qpos, atol=5e-3)


def test_a_dark_table_is_dark_and_nothing_else_is(plain: LocalCell) -> None:
    dark = made(*asked(table=(0.3, 0.3)))
    seen(plain)
    assert seen(dark).mean() < 0.8 * seen(plain).mean()
    before, now = plain.world.model, dark.world.model
    changed = np.flatnonzero((now.geom_rgba != before.geom_rgba).any(axis=1))
    assert [now.geom(number).name for number in changed] == ["table"]
    np.testing.assert_allclose(now.geom("table").rgba[:3], 0.3 * before.geom("table").rgba[:3], rtol=1e-6)
    dark.world.reset(SEED + 1)
    np.testing.assert_allclose(now.geom("table").rgba[:3], 0.3 * before.geom("table").rgba[:3], rtol=1e-6)
    white = made(*asked(table=(2.5, 2.5))).world
    white.reset(SEED)
    np.testing.assert_array_equal(white.model.geom("table").rgba, [1.0, 1.0, 1.0, 1.0])


def test_a_shadow_lies_on_half_of_the_image_where_the_seed_puts_it(plain: LocalCell) -> None:
    shaded = made(*asked(shadow=(0.5, 0.5)))
    bright = np.maximum(seen(plain), 1.0)
    shares = []
    for seed in (SEED, SEED + 1):
        ratio = (seen(shaded, seed) / np.maximum(seen(plain, seed), 1.0)).mean(axis=2)
        darker = ratio < 0.75
        assert 0.4 < darker.mean() < 0.6
        assert np.median(ratio[darker]) == pytest.approx(0.5, abs=0.02)
        assert np.median(ratio[~darker]) == pytest.approx(1.0, abs=0.02)
        shares.append(darker)
    assert (shares[0] != shares[1]).mean() > 0.05
    again = seen(shaded) / bright
    np.testing.assert_array_equal(again.mean(axis=2) < 0.75, shares[0])


def test_friction_and_mass_are_scaled_of_what_they_are_of(plain: LocalCell) -> None:
    slippery = made(*asked(friction=(0.6, 0.6), mass=(2, 2))).world
    slippery.reset(SEED)
    plain.reset(SEED)
    before, now = plain.world.model, slippery.model
    np.testing.assert_allclose(now.geom_friction[:, 0], 0.6 * before.geom_friction[:, 0])
    np.testing.assert_array_equal(now.geom_friction[:, 1:], before.geom_friction[:, 1:])
    heavier = np.flatnonzero(now.body_mass != before.body_mass)
    assert [now.body(number).name for number in heavier] == ["peg"]
    assert now.body("peg").mass[0] == pytest.approx(2 * before.body("peg").mass[0])
    np.testing.assert_allclose(now.body("peg").invweight0, before.body("peg").invweight0 / 2)
    assert now.stat.extent == before.stat.extent, "or the cameras would see otherwise"
    slippery.reset(SEED + 1)
    np.testing.assert_allclose(now.body("peg").invweight0, before.body("peg").invweight0 / 2)


def test_a_scene_that_has_blown_up_says_so_until_the_next_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    world = made().world
    world.reset(SEED)
    world.advance(0.02)
    assert not world.unstable
    world.data.qfrc_applied[0] = 1e20
    for _ in range(2):
        with pytest.raises(UnstableScene, match=r"has blown up and jumped back .*, must move steadily"):
            world.advance(0.02)
        assert world.unstable
    world.reset(SEED)
    assert not world.unstable
    world.advance(0.02)


def test_tighter_fit_widens_the_part_alone(plain: LocalCell) -> None:
    tight = made(*asked(tighter_m=(0.001, 0.001))).world
    tight.reset(SEED)
    wider = tight.model.geom("peg").size - plain.world.model.geom("peg").size
    np.testing.assert_allclose(wider, [0.0005, 0.0005, 0.0])
    assert np.count_nonzero((tight.model.geom_size != plain.world.model.geom_size).any(axis=1)) == 1


@pytest.mark.parametrize("task", ["peg_insert", "cable_plug"])
def test_tighter_fit_touches_the_hole_so_much_earlier(task: str) -> None:
    def play_m(*overrides: str) -> float:
        world = build_world(load_run(task, list(overrides)))
        world.reset(SEED)
        model, data = world.model, world.data
        socket, peg = model.body("socket").mocapid[0], model.joint("peg").qposadr[0]
        data.mocap_pos[socket], data.mocap_quat[socket] = [0.5, 0, 0], [1, 0, 0, 0]
        for off in np.arange(0.0, 0.002, 0.00005):
            data.qpos[peg : peg + 7] = [0.5 + off, 0, 0.054, 0, 1, 0, 0]
            mujoco.mj_fwdPosition(model, data)
            names = [{model.geom(number).name for number in contact.geom} for contact in data.contact]
            if any("peg" in pair and any("socket" in name for name in pair) for pair in names):
                return float(off)
        raise AssertionError("peg touches nothing")

    narrower = play_m() - play_m("task.sim.randomise.tighter_m.train=[0.001, 0.001]")
    assert narrower == pytest.approx(0.0005, abs=1e-4), "half of a millimetre on either side"


def test_arm_follows_its_commands_later_by_the_delay() -> None:
    def height_m(cell: LocalCell, after_s: float) -> float:
        cell.reset(SEED)
        world = cell.world
        start = world.state().T_base_tcp.position_m[2]
        world.command(np.array([0, 0, -0.05, 0, 0, 0]))
        world.advance(after_s)
        return float(world.state().T_base_tcp.position_m[2] - start)

    prompt, late = made(), made(*asked(delay_s=(0.1, 0.1)))
    assert height_m(prompt, 0.1) > 0.0005
    assert abs(height_m(late, 0.1)) < 0.0002
    assert height_m(late, 0.2) == pytest.approx(height_m(prompt, 0.1), abs=2e-4)


def test_delay_forgets_at_a_reset_what_was_still_to_come() -> None:
    world = made(*asked(delay_s=(0.1, 0.1))).world
    world.reset(SEED)
    start = world.state().T_base_tcp.position_m.copy()
    world.command(np.array([0, 0, -0.05, 0, 0, 0]))
    world.reset(SEED)
    world.advance(0.3)
    np.testing.assert_allclose(world.state().T_base_tcp.position_m, start, atol=5e-4)


def test_a_factor_is_drawn_alike_whatever_else_varies() -> None:
    light = asked(light=(0.5, 1.5))
    one, more = made(*light).world, made(*light, *asked(friction=(0.5, 1), mass=(1, 2))).world
    drawn = []
    for seed in range(4):
        one.reset(seed)
        more.reset(seed)
        np.testing.assert_array_equal(one.model.light_diffuse, more.model.light_diffuse)
        drawn.append(float(one.model.vis.headlight.ambient[0]))
    assert len(set(drawn)) == 4


def test_camera_of_another_process_shows_what_was_drawn() -> None:
    overrides = asked(
        light=(0.6, 0.6), camera_shift_m=(0.02, 0.02), camera_tilt_rad=(0.1, 0.1), distractors=(3, 3), noise=(5, 5),
        table=(0.5, 0.5), shadow=(0.4, 0.4),
    )  # fmt: skip
    resolved = load_run("peg_insert", overrides)
    cell, elsewhere = made(*overrides), build_world(resolved)
    cell.reset(SEED)
    elsewhere.show(cell.world.snapshot())
    camera = SimCamera(elsewhere, "front", resolved.cameras["front"])
    shown = camera.see().astype(float)
    camera.close()
    observation = cell.observe()
    assert observation is not None
    assert elsewhere.conditions.noise == 5.0
    np.testing.assert_array_equal(elsewhere.conditions.seen(), cell.world.conditions.seen())
    assert np.abs(shown - observation.images["front"]).mean() < 8.0
    elsewhere.conditions.noise = cell.world.conditions.noise = 0.0
    again = SimCamera(elsewhere, "front", resolved.cameras["front"])
    observation = cell.observe()
    assert observation is not None
    np.testing.assert_array_equal(again.see(), observation.images["front"])
    again.close()


def test_tested_factor_draws_from_what_was_held_out() -> None:
    config = RandomiseConfig.model_validate(
        {"light": {"train": (0.9, 1.1), "held_out": (0.5, 0.6)}, "tested": ("light",)}
    )
    assert config.limits("light") == (0.5, 0.6)
    assert config.limits("mass") == (1.0, 1.0)
    assert config.varying == ("light",)


def test_table_has_a_row_for_each_held_out_range_that_the_scene_has() -> None:
    peg, drawer = load_run("peg_insert"), load_run("drawer")
    there = rows(peg)
    assert next(iter(there)) == "none"
    assert {name for tested in there.values() for name in tested} == set(RandomiseConfig().factors)
    assert set(there) - set(rows(drawer)) == {"tighter_m"}
    assert words(peg, ()) == "as in training"
    assert words(peg, there["camera"]) == "cameras moved by 0.01 m and cameras tilted by 0.035 rad"
    assert words(peg, ("light",)) == "all lights at 0.7 to 1.3 times"
    with pytest.raises(ConfigError, match="is of an environment, must be of a scene; nothing in it can vary"):
        rows(load_run("mountain_car"))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("light.train=[1.2, 0.8]", r"train is \[1.2, 0.8\], must rise within \[0.1, 3.0\]; correct it"),
        ("light.train=[0.0, 1.0]", r"train is \[0.0, 1.0\], must rise within \[0.1, 3.0\]"),
        (
            "light.train=[0.5, 1.5]",
            r"held_out is \[0.7, 1.3\], must reach beyond train \[0.5, 1.5\]; what was trained on",
        ),
        ("noise.train=[0, 100]", r"train is \[0.0, 100.0\], must rise within \[0.0, 64.0\]"),
        ("noise.train=3", "task.sim.randomise.noise.train"),
        ("nois.train=[0, 1]", "nois.*did you mean 'noise'"),
        ("tested=[lights]", "task.sim.randomise.tested"),
        ("tighter_m.train=[0.002, 0.002]", r"tighter_m reaches 0.002 m, must be less than clearance_m \(0.002\)"),
    ],
)
def test_range_that_does_not_fit_is_refused_by_name(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build_world(load_run("peg_insert", [f"task.sim.randomise.{override}"]))


def test_tighter_fit_of_nothing_is_refused() -> None:
    with pytest.raises(SpecError, match=r"scene has no 'peg', must have one for a tighter fit; leave"):
        build_world(load_run("drawer", asked(tighter_m=(0, 0.001))))


def test_an_episode_of_a_randomised_cell_is_repeated_by_its_seed() -> None:
    ranges: dict[str, Any] = {"light": (0.8, 1.2), "mass": (0.8, 1.2), "delay_s": (0.0, 0.05), "noise": (0, 4)}
    overrides = asked(**ranges)

    def played() -> list[np.ndarray]:
        cell = made(*overrides)
        resolved = load_run("peg_insert")
        cell.reset(SEED)
        cell.start("000000-a", EpisodeKind.EVAL)
        found = []
        for _ in range(4):
            cell.send(np.full(ActionSpace(resolved.spec()).spec.action_size, 0.3, np.float32))
            cell.sleep_until_ns(cell.now_ns() + 100_000_000)
            observation = cell.observe()
            assert observation is not None
            found += [observation.proprio, observation.images["front"]]
        return found

    for one, other in zip(played(), played(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_world_is_one_of_the_arms_and_its_task_alone() -> None:
    resolved = load_run("peg_insert")
    task = find_task("peg_insert").build(scene_settings(resolved))
    world = World(placed_arms(resolved), {"peg_insert": task})
    world.reset(SEED)
    other = build_world(resolved)
    other.reset(SEED)
    np.testing.assert_array_equal(world.snapshot(), other.snapshot())
