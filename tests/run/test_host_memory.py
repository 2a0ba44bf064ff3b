"""Freed memory is kept: what is allocated again is not mapped and cleared again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

PROGRAM = """
import resource, sys
import torch
from robot_stack.learner.host_memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def touched():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(24 << 20)  # 96 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
for _ in range(20):  # until free places of the size are there
    touched()
print(sum(touched() for _ in range(5)))
"""


def pages(word: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, word], check=True, capture_output=True, text=True, timeout=120
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_large_tensors_are_not_mapped_anew() -> None:
    assert pages("keep") < 100 < pages("give back")
