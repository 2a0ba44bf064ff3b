"""LeRobotDataset v3 out and in: every number comes back, pixels within what the codec does to them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from robot_stack.datasets.lerobot import layout
from robot_stack.datasets.lerobot.codec import CODECS, VideoReader, VideoWriter, encoders
from robot_stack.datasets.lerobot.export import image_stats, merge_stats, vector_stats
from robot_stack.datasets.lerobot.rows import foreign_episode, rows_of
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.spec import CameraSpec, Spec
from robot_stack.types.transition import EndReason, EpisodeKind, back_id
from tests.datasets.data_rig import (
    TASK,
    TEXT,
    assert_same_episode,
    contents,
    full_disk,
    label,
    made_episode,
    made_spec,
    mark,
    there_and_back,
    two_arm_spec,
    write_folder,
)
from tests.replay.test_preferences import preference

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'robot-stack[export]'")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install 'robot-stack[export]'")
av = pytest.importorskip("av", reason="PyAV is not installed: pip install 'robot-stack[export]'")

from robot_stack.datasets.lerobot.export import Exported, export_lerobot  # noqa: E402
from robot_stack.datasets.lerobot.ingest import Like, import_lerobot  # noqa: E402


def quiet(what: str, number: int, count: int) -> None:
    assert 1 <= number <= count


def export(view: StoreView, out: Path, codec: str = "h264") -> Exported:
    return export_lerobot(view, view.episodes, out, codec=codec, on_episode=quiet)


@pytest.fixture(scope="module")
def written(view: StoreView, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The five episodes as a LeRobotDataset; tests read it and change copies."""
    out = tmp_path_factory.mktemp("lerobot") / "five"
    export(view, out)
    return out


@pytest.fixture
def copy(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize("codec", CODECS)
def test_everything_comes_back_but_pixels_within_the_stated_error(codec: str, tmp_path: Path) -> None:
    if CODECS[codec].encoder not in encoders():
        pytest.skip(f"this FFmpeg has no {CODECS[codec].encoder}")
    spec = made_spec(side_px=64)
    episodes = [
        made_episode("000000-demo-a", spec, steps=11),
        made_episode("000001-eval-b", spec, steps=5, kind=EpisodeKind.EVAL, end=EndReason.FAULT, source=Source.POLICY),
        made_episode("000002-online-c", spec, steps=17, kind=EpisodeKind.ONLINE, end=EndReason.FAILURE),
    ]
    labels = [label("000002-online-c", Verdict.SUCCESS), label("000001-eval-b", Verdict.FAILURE, LabelSource.TRUTH)]
    view = write_folder(tmp_path / "a", episodes, labels)
    exported = export(view, tmp_path / "out", codec)
    assert (exported.episodes, exported.rows) == (3, 33)
    import_lerobot(tmp_path / "out", tmp_path / "b", like=None, on_episode=quiet)
    again = open_store(tmp_path / "b")
    assert (again.task, again.text, again.spec) == (view.task, view.text, view.spec)
    assert sorted(again.labels, key=str) == sorted(view.labels, key=str)
    lossless = codec == "h264-lossless"
    for wanted in episodes:
        found = again.read(wanted.header.episode_id)
        assert_same_episode(found, wanted, images=lossless)
        for camera in spec.cameras:
            name = IMAGE_PREFIX + camera.name
            apart = np.abs(found.arrays[name].astype(int) - wanted.arrays[name])
            error = exported.image_errors[camera.name]
            assert apart.max() <= error["max"]
            assert apart.mean() < 4  # a neighbouring frame differs by 12
            assert error["psnr_db"] > (998 if lossless else 30)


def test_the_way_back_is_told_in_its_own_words(tmp_path: Path) -> None:
    view = there_and_back(tmp_path / "a")
    export(view, tmp_path / "out")
    tasks = pq.read_table(tmp_path / "out" / layout.TASKS).to_pydict()
    assert tasks == {"task_index": [0, 1], "task": [view.text, "put it back"]}
    rows = pq.read_table(next((tmp_path / "out/data").glob("*/*.parquet"))).to_pydict()
    assert [set(rows["task_index"][:5]), set(rows["task_index"][5:])] == [{0}, {1}]
    import_lerobot(tmp_path / "out", tmp_path / "b", like=None, on_episode=quiet)
    again = open_store(tmp_path / "b")
    assert (again.text, again.others) == (view.text, {back_id(view.task): "put it back"})


def test_who_moved_each_of_two_arms_comes_back(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("000000-demo-a", two_arm_spec(64))])
    export(view, tmp_path / "out")
    import_lerobot(tmp_path / "out", tmp_path / "b", like=None, on_episode=quiet)
    again = open_store(tmp_path / "b").read("000000-demo-a")
    np.testing.assert_array_equal(again.arrays["sources"], view.read("000000-demo-a").arrays["sources"])


def test_of_another_programs_two_arms_a_person_moved_both(tmp_path: Path) -> None:
    spec = two_arm_spec()
    rows = {
        layout.ACTION: np.zeros((4, spec.action_size), np.float32),
        layout.STATE: np.zeros((4, spec.proprio_size), np.float32),
        layout.INTERVENTION: np.array([True, False, True, True]),
        "timestamp": np.arange(4) / 10,
    }
    header = asdict(made_episode("000000-online-a").header)
    episode = foreign_episode(rows, {}, header, spec)
    assert episode.arrays["sources"].tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize("spec", [made_spec(), two_arm_spec()])
def test_rows_of_ours_say_who_moved_though_the_rest_of_the_episode_is_lost(spec: Spec) -> None:
    """As in a dataset that LeRobot's own tools have cut: an idle step of an operator became a policy's there."""
    ours = made_episode("000000-demo-a", spec)
    ours.arrays["source"][5:9] = [Source.POLICY, Source.IDLE, Source.HOLD, Source.IDLE]
    rows = rows_of(ours, [], number=0, first=0, task=0)
    images = {camera.name: ours.arrays[IMAGE_PREFIX + camera.name][:-1] for camera in spec.cameras}
    found = foreign_episode(rows, images, asdict(ours.header), spec)
    for column in layout.plain_columns(spec):
        np.testing.assert_array_equal(found.arrays[column.name], ours.arrays[column.name][:-1], column.name)


def test_a_source_that_is_none_is_refused(copy: Path, tmp_path: Path) -> None:
    path = copy / "data/chunk-000/file-000.parquet"
    table, name = pq.read_table(path), layout.PREFIX + "source"
    wrong = pa.array([9] * len(table), table.schema.field(name).type)
    pq.write_table(table.set_column(table.schema.get_field_index(name), table.schema.field(name), wrong), path)
    refused(copy, tmp_path, r"source of episode 000000-demo-a0? has 9, must be one of 0, 1, 2, 3")


def test_files_and_features_are_those_of_the_format(view: StoreView, written: Path) -> None:
    assert contents(written).keys() == {
        "meta/info.json",
        "meta/stats.json",
        "meta/tasks.parquet",
        "meta/robot_stack.json",
        "meta/episodes/chunk-000/file-000.parquet",
        "data/chunk-000/file-000.parquet",
        "videos/observation.images.front/chunk-000/file-000.mp4",
        "videos/observation.images.wrist/chunk-000/file-000.mp4",
    }
    info = json.loads((written / layout.INFO).read_text())
    assert (info["codebase_version"], info["fps"], info["total_episodes"], info["total_frames"]) == ("v3.0", 10, 5, 97)
    table = pq.read_table(written / "data/chunk-000/file-000.parquet")
    videos = {name for name, feature in info["features"].items() if feature["dtype"] == "video"}
    assert videos == {"observation.images.front", "observation.images.wrist"}
    assert set(table.column_names) == set(info["features"]) - videos
    assert {"observation.state", "action", "next.reward", "next.done", "next.truncated", "next.success",
            "intervention", "timestamp", "task_index"} <= set(table.column_names)  # fmt: skip
    for name in table.column_names:
        kind, feature = table.schema.field(name).type, info["features"][name]
        inner = kind.value_type if feature["shape"] != [1] else kind
        assert str(inner).replace("float", "float32").replace("double", "float64") == feature["dtype"], name
        assert feature["shape"] == [1] or kind.list_size == feature["shape"][0]


def test_rows_say_how_each_episode_ended(written: Path) -> None:
    table = pq.read_table(written / "data/chunk-000/file-000.parquet").to_pydict()
    ends = np.flatnonzero(np.diff(table["episode_index"], append=9))
    assert [table["next.reward"][i] for i in ends] == [1, 1, 1, 0, 0]
    assert [table["next.success"][i] for i in ends] == [True, True, True, False, False]
    assert [table["next.done"][i] for i in ends] == [True, True, True, True, False]
    assert [table["next.truncated"][i] for i in ends] == [False, False, False, False, True]
    assert sum(table["next.reward"]) == 3
    assert table["index"] == list(range(97))
    assert table["intervention"] == [True] * 45 + [False] * 52
    assert table["timestamp"][ends[1]] == pytest.approx(2.4)


def test_episode_table_points_at_rows_and_frames(written: Path) -> None:
    lines = pq.read_table(written / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    first = 0
    seen = 0
    for line in lines:
        assert line["tasks"] == [TEXT]
        assert (line["dataset_from_index"], line["dataset_to_index"]) == (first, first + line["length"])
        name = "videos/observation.images.front"
        assert line[f"{name}/from_timestamp"] == pytest.approx(seen / 10)
        assert line[f"{name}/to_timestamp"] == pytest.approx((seen + line["length"]) / 10)
        first += line["length"]
        seen += line["length"] + 1
    with av.open(str(written / "videos/observation.images.front/chunk-000/file-000.mp4")) as video:
        times = [frame.time for frame in video.decode(video=0)]
    np.testing.assert_allclose(times, np.arange(seen) / 10, atol=1e-4)


def test_frame_is_found_by_its_time_as_lerobot_looks_for_it(view: StoreView, written: Path) -> None:
    """Seek to the key frame before, decode up to the time, take the nearest."""
    lines = pq.read_table(written / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    line, step = lines[3], 7
    wanted_s = line["videos/observation.images.wrist/from_timestamp"] + step / 10
    with av.open(str(written / "videos/observation.images.wrist/chunk-000/file-000.mp4")) as video:
        stream = video.streams.video[0]
        video.seek(round(wanted_s / stream.time_base) - 1, backward=True, stream=stream)
        frame = next(each for each in video.decode(stream) if each.time > wanted_s - 1e-3)
    image = view.read(view.episodes[3]).arrays["image_wrist"][step]
    assert np.abs(frame.to_ndarray(format="rgb24").astype(int) - image).mean() < 6


def test_task_is_a_frame_that_pandas_indexes_by_text(written: Path) -> None:
    table = pq.read_table(written / layout.TASKS)
    assert table.to_pylist() == [{"task_index": 0, "task": TEXT}]
    assert json.loads(table.schema.metadata[b"pandas"])["index_columns"] == ["task"]


def test_stats_are_those_of_all_rows(view: StoreView, written: Path) -> None:
    stats = json.loads((written / layout.STATS).read_text())
    rows = pq.read_table(written / "data/chunk-000/file-000.parquet").to_pydict()
    for name in ("action", "observation.state", "next.reward", "intervention"):
        values = np.array(rows[name], np.float64).reshape(97, -1)
        for word, wanted in (
            ("min", values.min(0)),
            ("max", values.max(0)),
            ("mean", values.mean(0)),
            ("std", values.std(0)),
        ):
            np.testing.assert_allclose(stats[name][word], wanted, atol=1e-9)
        assert stats[name]["count"] == [97]
    images = np.concatenate([view.read(i).arrays["image_front"][:-1] for i in view.episodes]) / 255
    np.testing.assert_allclose(np.ravel(stats["observation.images.front"]["mean"]), images.mean((0, 1, 2)))
    np.testing.assert_allclose(np.ravel(stats["observation.images.front"]["std"]), images.std((0, 1, 2)))
    assert np.shape(stats["observation.images.front"]["q99"]) == (3, 1, 1)


def test_merged_stats_equal_those_of_everything_together() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(30, 3)), rng.normal(2, 3, size=(11, 3))
    merged = merge_stats({"a": vector_stats(one)}, {"a": vector_stats(two)})["a"]
    whole = vector_stats(np.concatenate([one, two]))
    for name in ("min", "max", "mean", "std", "count"):
        np.testing.assert_allclose(merged[name], whole[name])
    bound = np.minimum(vector_stats(one)["q10"], vector_stats(two)["q10"])
    np.testing.assert_array_equal(merged["q10"], bound)


def test_image_stats_count_every_pixel() -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3)).astype(np.uint8)
    stats = image_stats(images)
    np.testing.assert_allclose(stats["mean"].ravel(), images.mean((0, 1, 2)) / 255)
    np.testing.assert_allclose(stats["std"].ravel(), images.std((0, 1, 2)) / 255)
    median = np.quantile(images[..., 1] / 255, 0.5, method="inverted_cdf")
    assert stats["q50"][1, 0, 0] == pytest.approx(median)


def test_large_dataset_goes_into_several_files(
    view: StoreView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "DATA_FILE_MB", 1e-6)
    monkeypatch.setattr(layout, "VIDEO_FILE_MB", 0.0)
    monkeypatch.setattr(layout, "FILES_PER_CHUNK", 2)
    export(view, tmp_path / "out")
    for folder, suffix in (("data", "parquet"), ("videos/observation.images.wrist", "mp4")):
        names = sorted(str(p.relative_to(tmp_path / "out" / folder)) for p in (tmp_path / "out" / folder).rglob("*.*"))
        assert names == [f"chunk-00{i // 2}/file-00{i % 2}.{suffix}" for i in range(5)]
    import_lerobot(tmp_path / "out", tmp_path / "b", like=None, on_episode=quiet)
    for episode_id in view.episodes:
        assert_same_episode(open_store(tmp_path / "b").read(episode_id), view.read(episode_id), images=False)


def test_discarded_and_chosen_episodes_only(view: StoreView, tmp_path: Path) -> None:
    exported = export_lerobot(view, view.episodes[3:4], tmp_path / "out", codec="h264", on_episode=quiet)
    assert (exported.episodes, exported.rows) == (1, 12)
    import_lerobot(tmp_path / "out", tmp_path / "b", like=None, on_episode=quiet)
    assert open_store(tmp_path / "b").episodes == (view.episodes[3],)


# --- what cannot be done, in words ---------------------------------------------------------------------------------


def refused(folder: Path, tmp_path: Path, words: str, like: Like | None = None) -> None:
    with pytest.raises(StoreError, match=words):
        import_lerobot(folder, tmp_path / "b", like=like, on_episode=quiet)
    assert not (tmp_path / "b").exists()
    assert not list(tmp_path.glob(".b*"))


def test_video_that_is_shorter_than_its_table_is_named(copy: Path, view: StoreView, tmp_path: Path) -> None:
    short = tmp_path / "short"
    export_lerobot(view, view.episodes[:4], short, codec="h264", on_episode=quiet)
    video = "videos/observation.images.wrist/chunk-000/file-000.mp4"
    shutil.copyfile(short / video, copy / video)
    refused(copy, tmp_path, r"video .*images\.wrist.* has 0 of the frames 81 to 101, must have all 21")


@pytest.mark.parametrize(
    ("file", "spoil", "words"),
    [
        ("meta/info.json", "", "info.json is missing, must be there"),
        ("meta/info.json", "{", r"is unreadable \(JSONDecodeError"),
        ("meta/tasks.parquet", None, ""),
        ("data/chunk-000/file-000.parquet", "", "file .*data/chunk-000/file-000.parquet is missing"),
        ("data/chunk-000/file-000.parquet", "PAR1", "is unreadable .*Arrow"),
        ("meta/episodes/chunk-000/file-000.parquet", "", "episode table of .* has 0 episodes, must have the 5"),
        ("videos/observation.images.front/chunk-000/file-000.mp4", "", "file .*file-000.mp4 is missing"),
        ("videos/observation.images.front/chunk-000/file-000.mp4", "no video", "is unusable .*must be a video"),
        ("meta/robot_stack.json", "{}", "is unreadable .*spec"),
    ],
)
def test_damaged_dataset_is_refused_in_words(
    file: str, spoil: str | None, words: str, copy: Path, tmp_path: Path
) -> None:
    if spoil is None:  # nothing of it is needed to read an episode
        (copy / file).unlink()
        import_lerobot(copy, tmp_path / "b", like=None, on_episode=quiet)
        return
    (copy / file).write_text(spoil) if spoil else (copy / file).unlink()
    refused(copy, tmp_path, words)


def rewrite(copy: Path, **changes: object) -> None:
    info = json.loads((copy / layout.INFO).read_text())
    (copy / layout.INFO).write_text(json.dumps({**info, **changes}))


def test_older_format_is_refused_with_what_converts_it(copy: Path, tmp_path: Path) -> None:
    rewrite(copy, codebase_version="v2.1")
    refused(copy, tmp_path, r"is v2\.1, must be v3\.0; convert it with LeRobot's convert_dataset_v21_to_v30")


def test_dataset_of_another_program_needs_a_run_that_it_fits(copy: Path, view: StoreView, tmp_path: Path) -> None:
    (copy / layout.OURS).unlink()
    refused(copy, tmp_path, "spec of .* is not known, must be that of a run.*--like")
    other = made_spec(side_px=32, rate_hz=20.0, cameras=("front", "top"))
    refused(
        copy, tmp_path,
        r"shape of observation.images.front is \[16, 16, 3\], must be \[32, 32, 3\]; feature observation.images.top is "
        r"missing.*; fps is 10, must be 20; name a run",
        Like(spec=other, task="t"),
    )  # fmt: skip


def foreign(
    copy: Path, *, tasks: list[list[str]] | None = None, action: float | None = None, grips: Sequence[float] = (-1.0,)
) -> None:
    """Make a copy of the five episodes another program's: without our files and columns."""
    (copy / layout.OURS).unlink()
    path = copy / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path).drop_columns([layout.EPISODE_COLUMN])
    if tasks is not None:
        table = table.set_column(table.column_names.index("tasks"), "tasks", pa.array(tasks))
    pq.write_table(table, path)
    if action is not None:
        path = copy / "data/chunk-000/file-000.parquet"
        table = pq.read_table(path)
        field = table.schema.field("action")
        values = pa.array([[action] * 6 + [grips[row % len(grips)]] for row in range(97)], field.type)
        pq.write_table(table.set_column(table.column_names.index("action"), field, values), path)


JOINTS = [f"joint_{i}" for i in range(7)]


@pytest.mark.parametrize("names", [JOINTS, {"motors": JOINTS}])
def test_entries_that_another_program_calls_otherwise_are_refused_until_somebody_says_that_they_mean_the_same(
    copy: Path, view: StoreView, tmp_path: Path, names: object
) -> None:
    foreign(copy)
    info = json.loads((copy / layout.INFO).read_text())
    info["features"][layout.ACTION]["names"] = names
    info["features"][layout.STATE]["names"][:2] = reversed(info["features"][layout.STATE]["names"][:2])
    (copy / layout.INFO).write_text(json.dumps(info))
    like = Like(spec=view.spec, task="t")
    refused(
        copy, tmp_path,
        r"names of observation.state are tcp_pose.1, tcp_pose.0, tcp_pose.2.*, must be tcp_pose.0, tcp_pose.1.*; names "
        r"of action are joint_0, .*, must be arm.x, arm.y, .*arm.gripper; name a run .* or give --names-differ",
        like,
    )  # fmt: skip
    import_lerobot(copy, tmp_path / "b", like=replace(like, names_differ=True), on_episode=quiet)
    assert len(open_store(tmp_path / "b").episodes) == 5


def test_a_dataset_of_several_tasks_becomes_a_store_of_the_one_that_is_asked_for(
    copy: Path, view: StoreView, tmp_path: Path
) -> None:
    foreign(copy, tasks=[["push the block"], ["open the drawer"], ["wipe"], ["open the drawer"], ["wipe", "push"]])
    like = Like(spec=view.spec, task="t")
    listed = r"has 4 tasks, must have one: 'open the drawer', 'push', 'push the block', 'wipe'; .*--only-task"
    refused(copy, tmp_path, listed, like)
    listed = "--only-task is 'push', must be one of: 'open the drawer', 'push the block', 'wipe'; correct it"
    refused(copy, tmp_path, listed, replace(like, only_task="push"))  # never alone
    import_lerobot(copy, tmp_path / "b", like=replace(like, only_task="open the drawer"), on_episode=quiet)
    again = open_store(tmp_path / "b")
    assert (again.text, again.episodes) == ("open the drawer", ("000001-demo-lerobot", "000003-demo-lerobot"))
    for name, wanted in zip(again.episodes, (view.episodes[1], view.episodes[3]), strict=True):
        executed = view.read(wanted).arrays["executed"]
        np.testing.assert_array_equal(again.read(name).arrays["executed"], executed[:-1])


def test_one_task_alone_is_not_asked_of_a_dataset_of_ours(copy: Path, view: StoreView, tmp_path: Path) -> None:
    words = r"--only-task and --names-differ are for a dataset of another program, .* is one of ours; leave them out"
    refused(copy, tmp_path, words, Like(spec=view.spec, task="t", only_task=TEXT))
    refused(copy, tmp_path, words, Like(spec=view.spec, task="t", names_differ=True))


@pytest.mark.parametrize(("action", "warned"), [(0.004, True), (0.2, False)])
def test_actions_that_look_like_metres_are_warned_of(
    copy: Path, view: StoreView, tmp_path: Path, action: float, warned: bool
) -> None:
    foreign(copy, action=action)
    store = import_lerobot(copy, tmp_path / "b", like=Like(spec=view.spec, task="t"), on_episode=quiet)
    assert [("99 % of motions are below 0.004" in each) for each in store.warnings] == [True] * warned


@pytest.mark.parametrize(
    ("grips", "warned"),
    [
        ([0, 1], "arm.gripper of the actions is 0, 1"),  # LeRobot's CLOSE and STAY
        ([1], "arm.gripper of the actions is 1"),
        ([0, 0.5, 1], "arm.gripper of the actions is 0, 0.5, 1"),  # as scaled by who was told to
        ([-1, -0.4, 1], "arm.gripper of the actions is -1, -0.4, 1"),
        ([0, 0.1, 0.2, 0.3, 0.4, 0.5], "arm.gripper of the actions is 0, 0.1, 0.2, 0.3, 0.4, ..."),
        ([-1, 0, 1], None),
        ([-1, 1], None),
        ([0], None),
    ],
)
def test_gripper_that_may_mean_otherwise_is_warned_of(
    copy: Path, view: StoreView, tmp_path: Path, grips: list[float], warned: str | None
) -> None:
    foreign(copy, action=0.2, grips=grips)
    store = import_lerobot(copy, tmp_path / "b", like=Like(spec=view.spec, task="t"), on_episode=quiet)
    assert [each.partition(", where -1 closes, 0 stays and 1 opens;")[0] for each in store.warnings] == (
        [warned] if warned else []
    )


def test_exports_that_lerobot_has_merged_are_read_though_their_episodes_have_the_same_ids(tmp_path: Path) -> None:
    """As after LeRobot's aggregate_datasets: our column and the frames are there, our file is not."""
    ids, spec = ("000001-demo-a", "000002-demo-a"), made_spec(side_px=64)
    episodes = [made_episode(name, spec, steps=5) for name in (*ids, "000009-demo-a", "000008-demo-a")]
    said = [label(episode.header.episode_id, Verdict.FAILURE) for episode in episodes]
    marks = [mark(episode.header.episode_id, 1, 3) for episode in episodes]
    both = write_folder(tmp_path / "both", episodes, said, marks=marks)
    answers = [
        preference(("000008-demo-a", 1), ("000008-demo-a", 4)), preference(("000009-demo-a", 1), ("000008-demo-a", 4)),
        preference((ids[0], 1), (ids[0], 4)), preference((ids[1], 1), (ids[0], 4)),
    ]  # fmt: skip
    both.paths.preferences.write_text("".join(json.dumps(asdict(each)) + "\n" for each in answers))
    merged = tmp_path / "merged"
    export_lerobot(open_store(tmp_path / "both"), [each.header.episode_id for each in episodes], merged,
                   codec="h264", on_episode=quiet)  # fmt: skip
    path = merged / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    rest = [text.replace("000009", "000001").replace("000008", "000002")
            for text in table[layout.EPISODE_COLUMN].to_pylist()]  # fmt: skip
    index = table.column_names.index(layout.EPISODE_COLUMN)
    pq.write_table(table.set_column(index, layout.EPISODE_COLUMN, pa.array(rest)), path)
    refused(merged, tmp_path, "episode 000001-demo-a is there twice, must be there once")
    (merged / layout.OURS).unlink()
    store = import_lerobot(merged, tmp_path / "b", like=Like(spec=spec, task=TASK), on_episode=quiet)
    again = open_store(tmp_path / "b")
    assert again.episodes == ("000001-demo-a", "000001-demo-a-2", "000002-demo-a", "000002-demo-a-2")
    assert store.renamed == {
        f"{merged}/episode 2, 000001-demo-a": "000001-demo-a-2",
        f"{merged}/episode 3, 000002-demo-a": "000002-demo-a-2",
    }
    for name, wanted in zip(store.taken, episodes, strict=True):
        assert_same_episode(again.read(name), named(wanted, name), images=False)
        assert len(again.labels_of(name)) == sum(each.episode_id == name for each in again.marks) == 1
    # which of two episodes is meant is known only of the one beside which it lies
    assert set(again.preferences) == {preference((name, 1), (name, 4)) for name in ("000001-demo-a", "000002-demo-a-2")}
    assert store.warnings[:1] == ["2 preferences name an episode whose id is there twice, and are left out"]


def named(episode: StoredEpisode, episode_id: str) -> StoredEpisode:
    return replace(episode, header=replace(episode.header, episode_id=episode_id))


def test_dataset_of_another_program_becomes_episodes_that_were_cut_short(
    copy: Path, view: StoreView, tmp_path: Path
) -> None:
    foreign(copy)
    like = Like(spec=view.spec, task="other")
    import_lerobot(copy, tmp_path / "b", like=like, on_episode=quiet)
    again = open_store(tmp_path / "b")
    assert again.episodes == tuple(f"{i:06d}-demo-lerobot" for i in range(5))
    assert [again.read(i).end for i in again.episodes] == [
        EndReason.SUCCESS, EndReason.SUCCESS, EndReason.SUCCESS, EndReason.FAILURE, EndReason.TIMEOUT,
    ]  # fmt: skip
    found, wanted = again.read(again.episodes[3]).arrays, view.read(view.episodes[3]).arrays
    np.testing.assert_array_equal(found["executed"], wanted["executed"][:-1])
    np.testing.assert_array_equal(found["proprio"], wanted["proprio"][:-1])
    assert set(found["source"]) == {Source.POLICY}
    np.testing.assert_allclose(np.diff(found["stamp_ns"]), 1e8, atol=1e3)


def test_dataset_that_lerobot_has_cut_is_read_without_the_frames_behind_the_tables(
    copy: Path, view: StoreView, tmp_path: Path
) -> None:
    """As after LeRobot's delete_episodes: the tables' spans follow one another."""
    path = copy / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    lines = table.to_pylist()
    for camera in ("front", "wrist"):
        name = f"videos/observation.images.{camera}"
        for i, line in enumerate(lines):
            line[f"{name}/from_timestamp"] = sum(each["length"] for each in lines[:i]) / 10
            line[f"{name}/to_timestamp"] = line[f"{name}/from_timestamp"] + line["length"] / 10
    pq.write_table(type(table).from_pylist(lines, schema=table.schema), path)
    import_lerobot(copy, tmp_path / "b", like=None, on_episode=quiet)
    again = open_store(tmp_path / "b")
    assert again.episodes == view.episodes
    assert [again.read(i).length for i in again.episodes] == [19, 24, 19, 11, 19]


def test_dataset_that_lerobot_has_cut_to_one_episode_is_read_without_its_last_frame(
    view: StoreView, tmp_path: Path
) -> None:
    """There is no second episode whose frames follow at once: that the videos end with the rows tells."""
    cut = tmp_path / "cut"
    exported = export_lerobot(view, view.episodes[3:4], cut, codec="h264", on_episode=quiet)
    for camera in view.spec.cameras:
        path = cut / layout.place(layout.VIDEO, 0, video_key=layout.video_key(camera.name))
        reader = VideoReader(path, 10, camera.shape)
        images = reader.take(0, exported.rows)
        reader.close()
        writer = VideoWriter(path, CODECS["h264"], camera, 10)
        writer.add(images)
        writer.close()
    import_lerobot(cut, tmp_path / "b", like=None, on_episode=quiet)
    again = open_store(tmp_path / "b")
    assert [(name, again.read(name).length) for name in again.episodes] == [(view.episodes[3], exported.rows - 1)]


def test_actions_of_another_scale_are_refused(copy: Path, tmp_path: Path) -> None:
    path = copy / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    index = table.column_names.index("action")
    field = table.schema.field("action")
    values = pa.array([[3.0] * 7 for _ in range(97)], field.type)
    pq.write_table(table.set_column(index, field, values), path)
    words = r"executed of episode .* spans 3 to 3, must be within \[-1, 1\]; scale .* gripper: -1 closes"
    refused(copy, tmp_path, words)


def test_rows_that_are_missing_are_named(copy: Path, tmp_path: Path) -> None:
    path = copy / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).slice(0, 90), path)
    refused(copy, tmp_path, "episode 4 of .* has 13 rows, must have 20 in a row")


def test_unknown_and_missing_codec_are_refused_before_anything_is_written(
    view: StoreView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match=r"codec is 'vp9', must be one of \['av1', 'h264', 'h264-lossless'\]"):
        export(view, tmp_path / "out", "vp9")
    monkeypatch.setattr("robot_stack.datasets.lerobot.codec.encoders", lambda: frozenset({"libx264"}))
    with pytest.raises(StoreError, match=r"encoder libsvtav1 of codec av1 is missing .*choose one of \['h264'\]"):
        export(view, tmp_path / "out", "av1")
    assert not list(tmp_path.iterdir())


def test_image_that_a_codec_does_not_take_is_refused_with_one_that_does(tmp_path: Path) -> None:
    spec = made_spec(side_px=17)
    view = write_folder(tmp_path / "a", [made_episode("e", spec)])
    with pytest.raises(StoreError, match=r"is 17x17, must be at least 16 and even on both sides .*choose codec h264-l"):
        export(view, tmp_path / "out")
    export(view, tmp_path / "out", "h264-lossless")
    import_lerobot(tmp_path / "out", tmp_path / "b", like=None, on_episode=quiet)
    assert_same_episode(open_store(tmp_path / "b").read("e"), view.read("e"))


def test_rate_that_is_no_whole_number_is_refused(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e", made_spec(rate_hz=12.5))])
    with pytest.raises(StoreError, match=r"rate_hz of the spec is 12\.5, must be a whole number .*export as mcap"):
        export(view, tmp_path / "out")


def test_missing_package_is_named_with_how_to_get_it(
    view: StoreView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(StoreError, match=r"package pyarrow is missing.*pip install 'robot-stack\[export\]'"):
        export(view, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_full_disk_leaves_no_dataset(view: StoreView, tmp_path: Path) -> None:
    for most_bytes in (2000, 9000, 14000):
        with full_disk(most_bytes), pytest.raises(StoreError, match=r"writing .*/out failed: .*nothing was left there"):
            export(view, tmp_path / "out")
        assert not list(tmp_path.iterdir())


def test_folder_that_is_there_is_not_overwritten(view: StoreView, written: Path, tmp_path: Path) -> None:
    before = contents(written)
    with pytest.raises(StoreError, match=r"must not exist yet"):
        export(view, written)
    with pytest.raises(StoreError, match=r"must not exist yet"):
        import_lerobot(written, view.root, like=None, on_episode=quiet)
    assert contents(written) == before


def test_camera_of_another_layout_is_compared_by_its_names(copy: Path, view: StoreView, tmp_path: Path) -> None:
    info = json.loads((copy / layout.INFO).read_text())
    for camera in ("front", "wrist"):
        info["features"][layout.video_key(camera)] |= {"shape": [3, 16, 16], "names": ["channels", "height", "width"]}
    (copy / layout.INFO).write_text(json.dumps(info))
    import_lerobot(copy, tmp_path / "b", like=None, on_episode=quiet)
    assert open_store(tmp_path / "b").spec.cameras[0] == CameraSpec(name="front", height_px=16, width_px=16)
