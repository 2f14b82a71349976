"""Runs a Rust test binary, and ends it with the name of the test if a test exceeds the time limit.

    cargo test --config "target.'cfg(all())'.runner = ['python3', '.../limit_test_time.py', '300']"

libtest has no time limit, but prints "test NAME has been running for over 60 seconds". With one test at a time, libtest
instead begins the line "test NAME ... " and leaves the line unfinished.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time

SLOW = re.compile(r"^test (.+) has been running for over (\d+) seconds")
ENDED = re.compile(r"^test (.+) \.\.\. \w")
BEGUN = re.compile(r"^test (.+) \.\.\. $")
EXIT_CODE = 124
"""Exit code of timeout(1)."""


class Watch:
    """The output of a test binary so far."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.begun: dict[str, float] = {}
        self.line = ""
        self.last_word = time.monotonic()

    def hear(self, text: str) -> None:
        """Processes a piece of the binary's output, of any size."""
        self.last_word = time.monotonic()
        *lines, self.line = (self.line + text).split("\n")
        for line in lines:
            if slow := SLOW.match(line):
                self.begun[slow[1]] = self.last_word - float(slow[2])
            elif ended := ENDED.match(line):
                self.begun.pop(ended[1], None)

    def hanging(self) -> str | None:
        """The test that exceeded the limit, or None if no name is known."""
        now = time.monotonic()
        for name, begin in self.begun.items():
            if now - begin > self.limit:
                return f"test {name}"
        if now - self.last_word > self.limit:
            alone = BEGUN.match(self.line)
            return f"test {alone[1]}" if alone else "something, of which nothing is known but silence,"
        return None


def run(limit: float, command: list[str]) -> int:
    """Runs the binary; returns its exit code, or 124 if the limit was exceeded."""
    watch = Watch(limit)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process, selectors.DefaultSelector() as selector:
        assert process.stdout is not None
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(timeout=1.0):
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    return process.wait()
                os.write(1, piece)
                watch.hear(piece.decode(errors="replace"))
            if (name := watch.hanging()) is not None:
                process.kill()
                os.write(1, f"\nHANGS: {name} has taken more than {limit:g} s; {command[0]} is killed\n".encode())
                return EXIT_CODE


if __name__ == "__main__":
    sys.exit(run(float(sys.argv[1]), sys.argv[2:]))
