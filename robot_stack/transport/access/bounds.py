"""Bounds on what one peer of the learner may hold, send and say; every bound of the link, each with its reason."""

from __future__ import annotations

from robot_stack.types.spec import Spec

# places --------------------------------------------------------------------------------------------------------
MAX_ACTORS = 32
"""Actors that may be connected at once; 16 are the most that have been measured."""
MAX_OPERATORS = 32
"""Pages and commands that may look at once. Of those that ask nothing any more the oldest gives way."""
MAX_KNOWN_ACTORS = 256
"""Names that a learner keeps figures of; a run has one or a few, a loop that renames itself has many."""
STREAMS_EACH = 2
"""Streams of one kind and one peer: the one it uses, and one that broke and that nobody has noticed yet."""
CALLS_OF_ACTOR, CALLS_OF_OPERATOR = 6, 2
"""Calls of one peer at once: three streams, one twice, a label or mark and a status; a stream and a question."""
MAX_HELLOS = 16
"""Peers that may be saying Hello at once; of those that say nothing the one that waits longest gives way."""
ROOM_TO_REFUSE = 48
"""Threads on which strangers are refused. They hold none: nothing of theirs is read."""
MAX_CALLS = MAX_ACTORS * CALLS_OF_ACTOR + MAX_OPERATORS * CALLS_OF_OPERATOR + MAX_HELLOS + ROOM_TO_REFUSE
"""Calls at once. No peer can take another's: each has its own number of them, and the sum fits."""

# time ----------------------------------------------------------------------------------------------------------
FIRST_MESSAGE_S = 5.0
"""From the beginning of a call to its request: as long as a client of ours waits for an answer."""
SESSION_IDLE_S = 30.0
"""After this long without a call a peer is gone, and must say Hello again."""
HANDSHAKE_S = 5.0
"""From a connection to its first word of HTTP/2 or TLS; one that says nothing holds a file descriptor."""
IDLE_CONNECTION_S = 60.0
"""A connection without any call is closed: whoever needs it opens it again."""

# lengths -------------------------------------------------------------------------------------------------------
MAX_NAME_CHARS = 128
"""As `types.names`: names of actors, tasks, runs and episodes become names of files."""
MAX_LIFE_CHARS = 64
"""A random word of 32 characters, and room."""
MAX_NOTE_CHARS = 2000
"""A page of the console takes 500; a few sentences."""
MAX_SPEC_CHARS = 64 << 10
"""A spec of four arms and eight cameras is 4 KB."""
MAX_LABEL_BYTES = 16 << 10
"""A note of `MAX_NOTE_CHARS` in any script, and the other fields."""
MAX_MARK_BYTES = 4 << 10
"""Two names and four numbers."""
MAX_HELLO_BYTES = MAX_SPEC_CHARS + (16 << 10)
MAX_QUESTION_BYTES = 1 << 10
"""Status and the watches: a number or nothing."""
MAX_OPEN_EPISODES = 16
"""Episodes of one actor that have begun and not ended: it records one after the other, and each is held in memory."""
MAX_REFUSED_EPISODES = 1024
"""Episodes of one stream whose header was refused and whose steps must be too; then the stream ends."""
MAX_INDEX = 10_000_000
"""Steps of an episode: at 100 Hz more than a day."""
MAX_INT64 = 2**63 - 1
"""Largest number that the store's columns hold."""
MAX_DURATION_S = 1e9
"""Ages and skews: thirty years. Beyond 3e38 a float32 of the store has no number."""
MAX_UNIX_S = 253_402_300_799.0
"""Stamps: the last second of the year 9999, the last one that calendars know."""
MAX_WORD_CHARS = 256
"""A version or a phase: a word."""
MAX_COUNTERS = 256
"""Figures of a status; the learner has about thirty."""

# parameters ----------------------------------------------------------------------------------------------------
MAX_TENSORS = 4096
"""Tensors of a bundle; a policy of ours has about sixty."""
MAX_TENSOR_HEADER_BYTES = 1 << 20
"""The table before the tensors: 4096 of them with names of 100 characters are 0.7 MB."""
MAX_DIMENSIONS = 8
"""Of a tensor; a convolution has four."""
MAX_METADATA, MAX_METADATA_CHARS = 64, 16 << 10
"""Entries beside the tensors, and the length of one: settings of the algorithm as JSON are the longest, 2 KB."""

SLACK_BYTES = 64 << 10
"""Of a step, beside its arrays: names, numbers and the frame of protobuf."""


def step_bytes(spec: Spec) -> int:
    """Return the most bytes that one step of a cell can take on the link."""
    images = sum(camera.height_px * camera.width_px * 3 for camera in spec.cameras)
    return images + 4 * (spec.proprio_size + 3 * spec.action_size) + SLACK_BYTES


def request_bytes(spec: Spec) -> int:
    """Return the most bytes that the learner of a cell takes in one message; gRPC reads no further."""
    return max(step_bytes(spec), MAX_HELLO_BYTES)
