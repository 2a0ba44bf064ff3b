"""What a page may say, and the sentence it gets for anything else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.console.messages import MAX_CHARS, Hello, Move, PageError, Press, Say, Seen, Sit, Undo, Write, parse
from robot_stack.types.event import Verdict

MOVE = {"k": "move", "t_ms": 12.5, "axes": [0, 0.5, -1, 0, 0, 1], "pressed": ["deadman"], "live": True}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"k": "hello", "token": "", "page": "a1", "build": "x"}, Hello(token="", page="a1", build="x")),
        ({"k": "press", "what": "success"}, Press(what="success")),
        ({"k": "press", "what": "clear_stop"}, Press(what="clear_stop")),
        ({"k": "say", "episode": "000001-demo-a", "verdict": "discard"},
         Say(episode="000001-demo-a", verdict=Verdict.DISCARD)),
        ({"k": "undo"}, Undo()),
        ({"k": "sit"}, Sit()),
        ({"k": "write", "episode": "e", "text": "käfer, grün"}, Write(episode="e", text="käfer, grün")),
        ({"k": "seen", "state": 7, "image": 0}, Seen(state=7, image=0)),
        (MOVE, Move(t_ms=12.5, axes=(0, 0.5, -1, 0, 0, 1), pressed=frozenset({"deadman"}), live=True)),
    ],
)  # fmt: skip
def test_each_kind_is_understood(said, meant):
    assert parse(json.dumps(said)) == meant


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ペグが\u3000左", id="a space of a Japanese or Chinese keyboard"),
        pytest.param("trop lent\xa0! 3\u202fmm", id="no-break spaces"),
        pytest.param("می\u200cخواهم", id="a joiner that Persian is spelt with"),
        pytest.param("ok 👨\u200d💻", id="a joined picture"),
        pytest.param("\U0001fae9", id="a picture newer than this Python"),
    ],
)
def test_a_note_is_what_people_write(text):
    assert parse(json.dumps({"k": "write", "episode": "e", "text": text})) == Write(episode="e", text=text)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("", "is no JSON"),
        ("{", "is no JSON"),
        ("[" * 2000, "is no JSON"),
        ("[]", "is [], must be an object with k out of"),
        ("7", "is 7, must be an object"),
        ('{"k": "shutdown"}', "is {'k': 'shutdown'}, must be an object with k out of ['hello', 'press'"),
        ('{"k": ["press"]}', "must be an object with k out of"),
        ('{"what": "success"}', "must be an object with k out of"),
        ('{"k": "press"}', "what of press is missing, must be there"),
        ('{"k": "press", "what": "success", "who": 1}', "who of press is there, must not be"),
        ('{"k": "press", "what": "self_destruct"}', "must be one of ['success'"),
        ('{"k": "press", "what": "next_arm"}', "must be one of"),
        ('{"k": "press", "what": null}', "is None, must be a valid string"),
        ('{"k": "say", "episode": "e", "verdict": "maybe"}', "is 'maybe', must be 'success', 'failure' or 'discard'"),
        ('{"k": "say", "episode": 3, "verdict": "success"}', "is 3, must be a valid string"),
        ('{"k": "write", "episode": "e", "text": "' + "x" * 501 + '"}', "at most 500 characters"),
        (json.dumps({"k": "write", "episode": "e", "text": "a\x1b[2J"}), "without '\\x1b'; leave that out"),
        (json.dumps({"k": "write", "episode": "e", "text": "a\u2028b"}), "without '\\u2028'; leave that out"),
        (json.dumps({"k": "write", "episode": "e\u3000", "text": "a"}), "must be printable text"),
        ('{"k": "seen", "state": -1, "image": 0}', "is -1, must be greater than or equal to 0"),
        ('{"k": "seen", "state": 1.5, "image": 0}', "must be a valid integer"),
        ('{"k": "seen", "state": true, "image": 0}', "must be a valid integer"),
        ("x" * (MAX_CHARS + 1), f"must have at most {MAX_CHARS}"),
        (b"\x00\x01", "must be text"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(raw, words):
    with pytest.raises(PageError) as caught:
        parse(raw)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("axes", "[NaN, 0, 0, 0, 0, 0]"), ("axes", "[Infinity, 0, 0, 0, 0, 0]"), ("axes", "[1e999, 0, 0, 0, 0, 0]"),
        ("axes", "[1.01, 0, 0, 0, 0, 0]"), ("axes", "[0, 0, 0, 0, 0]"), ("axes", "[0, 0, 0, 0, 0, 0, 0]"),
        ("axes", "[true, 0, 0, 0, 0, 0]"), ("axes", '["1", 0, 0, 0, 0, 0]'), ("axes", "null"),
        ("t_ms", "NaN"), ("t_ms", "-1"), ("t_ms", '"now"'), ("pressed", '["stop"]'), ("pressed", '"deadman"'),
        ("pressed", "[1]"), ("live", "1"), ("live", "null"),
    ],
)  # fmt: skip
def test_a_hand_that_cannot_be_is_refused(field, value):
    rest = ", ".join(f'"{name}": {json.dumps(MOVE[name])}' for name in MOVE if name != field)
    with pytest.raises(PageError):
        parse(f'{{{rest}, "{field}": {value}}}')


NAMES = ("k", "what", "axes", "pressed", "t_ms", "live", "state", "image", "episode", "verdict")
values = st.one_of(
    st.none(), st.booleans(), st.floats(), st.integers(), st.sampled_from(["move", "seen", "press", "success", "x"]),
    st.lists(st.floats(-1.5, 1.5), max_size=7),
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=6))
def test_whatever_is_sent_is_a_message_or_a_sentence(fields):
    refusal, message = "", None
    try:
        message = parse(json.dumps(dict(fields)))
    except PageError as error:
        refusal = str(error)
    assert "must" in refusal or message is not None
    assert not isinstance(message, Move) or all(-1.0 <= axis <= 1.0 for axis in message.axes)


@given(st.text(max_size=200))
def test_noise_is_refused(text):
    with pytest.raises(PageError):
        parse(text)
