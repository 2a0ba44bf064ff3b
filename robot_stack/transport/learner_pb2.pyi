# ruff: noqa
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HelloRequest(_message.Message):
    __slots__ = ("protocol", "actor_id", "spec_digest", "spec_json", "task", "run_id", "life", "role")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LIFE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    actor_id: str
    spec_digest: str
    spec_json: str
    task: str
    run_id: str
    life: str
    role: str
    def __init__(
        self,
        protocol: _Optional[int] = ...,
        actor_id: _Optional[str] = ...,
        spec_digest: _Optional[str] = ...,
        spec_json: _Optional[str] = ...,
        task: _Optional[str] = ...,
        run_id: _Optional[str] = ...,
        life: _Optional[str] = ...,
        role: _Optional[str] = ...,
    ) -> None: ...

class HelloReply(_message.Message):
    __slots__ = ("protocol", "run_id", "accepted_steps", "session", "next_number")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_STEPS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NEXT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    run_id: str
    accepted_steps: int
    session: str
    next_number: int
    def __init__(
        self,
        protocol: _Optional[int] = ...,
        run_id: _Optional[str] = ...,
        accepted_steps: _Optional[int] = ...,
        session: _Optional[str] = ...,
        next_number: _Optional[int] = ...,
    ) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("run_id", "header", "step")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    header: EpisodeHeader
    step: Step
    def __init__(
        self,
        run_id: _Optional[str] = ...,
        header: _Optional[_Union[EpisodeHeader, _Mapping]] = ...,
        step: _Optional[_Union[Step, _Mapping]] = ...,
    ) -> None: ...

class Ack(_message.Message):
    __slots__ = ("episode_id", "index", "refusal")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    index: int
    refusal: str
    def __init__(
        self, episode_id: _Optional[str] = ..., index: _Optional[int] = ..., refusal: _Optional[str] = ...
    ) -> None: ...

class EpisodeHeader(_message.Message):
    __slots__ = ("episode_id", "kind", "task", "actor", "started_unix_s", "seed", "level", "reset", "task_id")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    kind: str
    task: str
    actor: str
    started_unix_s: float
    seed: int
    level: int
    reset: str
    task_id: str
    def __init__(
        self,
        episode_id: _Optional[str] = ...,
        kind: _Optional[str] = ...,
        task: _Optional[str] = ...,
        actor: _Optional[str] = ...,
        started_unix_s: _Optional[float] = ...,
        seed: _Optional[int] = ...,
        level: _Optional[int] = ...,
        reset: _Optional[str] = ...,
        task_id: _Optional[str] = ...,
    ) -> None: ...

class Step(_message.Message):
    __slots__ = ("episode_id", "index", "observation", "action", "end")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    index: int
    observation: Observation
    action: ActionRow
    end: str
    def __init__(
        self,
        episode_id: _Optional[str] = ...,
        index: _Optional[int] = ...,
        observation: _Optional[_Union[Observation, _Mapping]] = ...,
        action: _Optional[_Union[ActionRow, _Mapping]] = ...,
        end: _Optional[str] = ...,
    ) -> None: ...

class Observation(_message.Message):
    __slots__ = ("images", "proprio", "stamp_ns", "age_s", "skew_s")
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    PROPRIO_FIELD_NUMBER: _ClassVar[int]
    STAMP_NS_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    SKEW_S_FIELD_NUMBER: _ClassVar[int]
    images: _containers.RepeatedCompositeFieldContainer[Image]
    proprio: bytes
    stamp_ns: int
    age_s: float
    skew_s: float
    def __init__(
        self,
        images: _Optional[_Iterable[_Union[Image, _Mapping]]] = ...,
        proprio: _Optional[bytes] = ...,
        stamp_ns: _Optional[int] = ...,
        age_s: _Optional[float] = ...,
        skew_s: _Optional[float] = ...,
    ) -> None: ...

class Image(_message.Message):
    __slots__ = ("camera", "height_px", "width_px", "rgb")
    CAMERA_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_PX_FIELD_NUMBER: _ClassVar[int]
    WIDTH_PX_FIELD_NUMBER: _ClassVar[int]
    RGB_FIELD_NUMBER: _ClassVar[int]
    camera: str
    height_px: int
    width_px: int
    rgb: bytes
    def __init__(
        self,
        camera: _Optional[str] = ...,
        height_px: _Optional[int] = ...,
        width_px: _Optional[int] = ...,
        rgb: _Optional[bytes] = ...,
    ) -> None: ...

class ActionRow(_message.Message):
    __slots__ = (
        "executed",
        "proposed",
        "human",
        "source",
        "sources",
        "gripper_pressed",
        "clipped",
        "params_version",
        "params_age_s",
    )
    EXECUTED_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_FIELD_NUMBER: _ClassVar[int]
    HUMAN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    GRIPPER_PRESSED_FIELD_NUMBER: _ClassVar[int]
    CLIPPED_FIELD_NUMBER: _ClassVar[int]
    PARAMS_VERSION_FIELD_NUMBER: _ClassVar[int]
    PARAMS_AGE_S_FIELD_NUMBER: _ClassVar[int]
    executed: bytes
    proposed: bytes
    human: bytes
    source: int
    sources: bytes
    gripper_pressed: bool
    clipped: bool
    params_version: int
    params_age_s: float
    def __init__(
        self,
        executed: _Optional[bytes] = ...,
        proposed: _Optional[bytes] = ...,
        human: _Optional[bytes] = ...,
        source: _Optional[int] = ...,
        sources: _Optional[bytes] = ...,
        gripper_pressed: _Optional[bool] = ...,
        clipped: _Optional[bool] = ...,
        params_version: _Optional[int] = ...,
        params_age_s: _Optional[float] = ...,
    ) -> None: ...

class WatchParamsRequest(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class Params(_message.Message):
    __slots__ = ("version", "sha256", "safetensors", "metadata", "created_unix_s")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SAFETENSORS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    version: int
    sha256: str
    safetensors: bytes
    metadata: _containers.ScalarMap[str, str]
    created_unix_s: float
    def __init__(
        self,
        version: _Optional[int] = ...,
        sha256: _Optional[str] = ...,
        safetensors: _Optional[bytes] = ...,
        metadata: _Optional[_Mapping[str, str]] = ...,
        created_unix_s: _Optional[float] = ...,
    ) -> None: ...

class WatchScoresRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LiveScore(_message.Message):
    __slots__ = ("episode_id", "index", "progress", "success", "declared", "version")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    index: int
    progress: float
    success: float
    declared: bool
    version: str
    def __init__(
        self,
        episode_id: _Optional[str] = ...,
        index: _Optional[int] = ...,
        progress: _Optional[float] = ...,
        success: _Optional[float] = ...,
        declared: _Optional[bool] = ...,
        version: _Optional[str] = ...,
    ) -> None: ...

class Label(_message.Message):
    __slots__ = ("episode_id", "verdict", "source", "stamp_unix_s", "note")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STAMP_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    verdict: str
    source: str
    stamp_unix_s: float
    note: str
    def __init__(
        self,
        episode_id: _Optional[str] = ...,
        verdict: _Optional[str] = ...,
        source: _Optional[str] = ...,
        stamp_unix_s: _Optional[float] = ...,
        note: _Optional[str] = ...,
    ) -> None: ...

class LabelReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StageMark(_message.Message):
    __slots__ = ("episode_id", "stage", "frame", "source", "stamp_unix_s", "name", "removed")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STAMP_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    stage: int
    frame: int
    source: str
    stamp_unix_s: float
    name: str
    removed: bool
    def __init__(
        self,
        episode_id: _Optional[str] = ...,
        stage: _Optional[int] = ...,
        frame: _Optional[int] = ...,
        source: _Optional[str] = ...,
        stamp_unix_s: _Optional[float] = ...,
        name: _Optional[str] = ...,
        removed: _Optional[bool] = ...,
    ) -> None: ...

class MarkReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("phase", "message", "counters", "actors")
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

    PHASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    phase: str
    message: str
    counters: _containers.ScalarMap[str, float]
    actors: _containers.RepeatedCompositeFieldContainer[ActorStatus]
    def __init__(
        self,
        phase: _Optional[str] = ...,
        message: _Optional[str] = ...,
        counters: _Optional[_Mapping[str, float]] = ...,
        actors: _Optional[_Iterable[_Union[ActorStatus, _Mapping]]] = ...,
    ) -> None: ...

class ActorStatus(_message.Message):
    __slots__ = (
        "actor_id",
        "connected",
        "last_seen_s",
        "params_version",
        "episodes",
        "steps",
        "bytes",
        "resends",
        "refused",
        "held",
        "reconnects",
        "ack_p50_ms",
        "ack_p99_ms",
    )
    ACTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_S_FIELD_NUMBER: _ClassVar[int]
    PARAMS_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RESENDS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    RECONNECTS_FIELD_NUMBER: _ClassVar[int]
    ACK_P50_MS_FIELD_NUMBER: _ClassVar[int]
    ACK_P99_MS_FIELD_NUMBER: _ClassVar[int]
    actor_id: str
    connected: bool
    last_seen_s: float
    params_version: int
    episodes: int
    steps: int
    bytes: int
    resends: int
    refused: int
    held: int
    reconnects: int
    ack_p50_ms: float
    ack_p99_ms: float
    def __init__(
        self,
        actor_id: _Optional[str] = ...,
        connected: _Optional[bool] = ...,
        last_seen_s: _Optional[float] = ...,
        params_version: _Optional[int] = ...,
        episodes: _Optional[int] = ...,
        steps: _Optional[int] = ...,
        bytes: _Optional[int] = ...,
        resends: _Optional[int] = ...,
        refused: _Optional[int] = ...,
        held: _Optional[int] = ...,
        reconnects: _Optional[int] = ...,
        ack_p50_ms: _Optional[float] = ...,
        ack_p99_ms: _Optional[float] = ...,
    ) -> None: ...

class SpoolRecord(_message.Message):
    __slots__ = ("header", "step", "label", "mark")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    header: EpisodeHeader
    step: Step
    label: Label
    mark: StageMark
    def __init__(
        self,
        header: _Optional[_Union[EpisodeHeader, _Mapping]] = ...,
        step: _Optional[_Union[Step, _Mapping]] = ...,
        label: _Optional[_Union[Label, _Mapping]] = ...,
        mark: _Optional[_Union[StageMark, _Mapping]] = ...,
    ) -> None: ...
