"""The protocol version, limits and channel options that both ends of the link share."""

from __future__ import annotations

from robot_stack.transport.access import bounds

PROTOCOL_VERSION = 6
"""Raised whenever an older peer would misread a message."""

MAX_MESSAGE_BYTES = 64 << 20
"""Largest message that an actor takes: its parameters. A learner takes no more than a step of its cell."""

MAX_DETAIL_CHARS = 2000
"""Words in a refusal; they travel in an HTTP/2 header, of which gRPC takes 8 KB."""

_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A peer that vanished without closing (cable, power) is noticed within 3 s: 1 of silence, 1.8 without an answer.
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 1800),
    # gRPC's own bandwidth pings hold the keepalive ones back, and would wait 60 s for their answer.
    ("grpc.http2.ping_timeout_ms", 1800),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # So much of a call is under way at most: all of it may be ahead of a ping in a relay's buffer (`ssh -L`), and at
    # 4 Mbit/s is then 1 s long. Probing, gRPC fills the relay with megabytes. At a round trip of 50 ms it is 10 MB/s.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 512 << 10),
)

_SERVER_OPTIONS = (
    # No max_concurrent_streams: gRPC counts a refused call there until Python's garbage collector has found it.
    # Whoever connects and says nothing must not hold a file descriptor of the learner for long.
    ("grpc.server_handshake_timeout_ms", int(1000 * bounds.HANDSHAKE_S)),
    ("grpc.max_connection_idle_ms", int(1000 * bounds.IDLE_CONNECTION_S)),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
    ("grpc.http2.max_ping_strikes", 0),
    # Otherwise two learners share a port without a word, and each gets half of the calls.
    ("grpc.so_reuseport", 0),
)

CLIENT_OPTIONS = (
    *_CHANNEL_OPTIONS,
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # Without its own pool a new channel inherits the back-off of the one that failed.
    ("grpc.use_local_subchannel_pool", 1),
    # The learner is on this network; a proxy from the environment only gets in the way.
    ("grpc.enable_http_proxy", 0),
)


def server_options(request_bytes: int) -> tuple[tuple[str, int], ...]:
    """Return the channel options of a learner that takes messages of at most `request_bytes`."""
    return (*_CHANNEL_OPTIONS, ("grpc.max_receive_message_length", request_bytes), *_SERVER_OPTIONS)
