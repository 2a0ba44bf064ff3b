"""Freed memory is kept: what is allocated again is not mapped and cleared again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

PROGRAM = """
import resource
import torch
from robot_stack.learner.host_memory import keep_freed_memory
def touched():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(24 << 20)  # 96 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def pages():
    for _ in range(20):  # until free places of the size are there
        touched()
    return sum(touched() for _ in range(5))
given_back = pages()
assert keep_freed_memory()
print(given_back, pages())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_large_tensors_are_not_mapped_anew() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=120)
    given_back, kept = map(int, done.stdout.split())
    assert kept < 100 < given_back
