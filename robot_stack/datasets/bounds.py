"""Bounds on datasets from elsewhere: every bound of import, edit and merge, each with its reason."""

from __future__ import annotations

MAX_EPISODE_BYTES = 4 << 30
"""Unpacked, of one episode, which is held in memory: an hour of two 128x128 cameras at 10 Hz is 3.5 GB."""
FREE_BYTES = 64 << 20
"""Unpacked bytes that any file may have: a minute of two black 128x128 cameras is 59 MB and packs to nothing."""
MAX_EXPANSION = 200
"""Unpacked over packed bytes beyond that; images of a camera pack to a third, simulated ones to a thirtieth."""
MAX_CHUNK_BYTES = 64 << 20
"""Unpacked, of one chunk of a bag or of an array; writers make chunks of 1 to 4 MB, and the largest image has 3."""
MAX_ABOUT_BYTES = 16 << 20
"""Text about a dataset or an episode: info.json of a large LeRobotDataset with all its names is 100 KB."""
MAX_LOG_BYTES = 64 << 20
"""Labels, stage marks, preferences or notes of a folder: three hundred thousand labels."""
MAX_TEXT_CHARS = 2000
"""A note, and a task in words."""
MAX_NAME_CHARS = 128
"""As `types.names`."""
MAX_LABELS = 10_000
"""Labels of one episode: an operator changes their mind a few times."""
MAX_ROWS = 100_000_000
"""Rows of a table: a hundred days at 10 Hz."""
MAX_FRAMES = 10_000_000
"""Frames of one episode: at 100 Hz more than a day."""
MAX_FILES = 1_000_000
"""Files of an episode or of a table of files: chunks of a second, of all arrays of a day."""
MAX_UNIX_S = 253_402_300_799.0
"""The last second of the year 9999."""


def unpacked_limit(packed_bytes: int) -> int:
    """Return the most bytes that a file of this size may unpack to."""
    return min(MAX_EPISODE_BYTES, FREE_BYTES + MAX_EXPANSION * packed_bytes)
