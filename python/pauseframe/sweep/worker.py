"""`python -m pauseframe.sweep.worker`: a process that computes runs in sequence.

Reads one task per line from standard input (JSON) and answers each with a line on standard output. The process ends
when its input ends, even during a run, or when no process reads its answers, so it never outlives a killed sweep.
"""

from __future__ import annotations

import json
import os
import signal
import time
from queue import SimpleQueue
from threading import Thread

from pauseframe.sweep.task import Answer, Computer
from pauseframe.terminal.standard import reopen_closed

SAY_EVERY_S = 0.02
"""Answers within this many seconds of each other are sent in one message."""


def serve() -> None:
    """Answers tasks until the input ends."""
    reopen_closed()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the sweep reacts to Ctrl-C, and ends its workers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # stray output must not reach the sweep
    tasks: SimpleQueue[str] = SimpleQueue()
    Thread(target=_read, args=(tasks,), daemon=True).start()
    computer = Computer()
    answer, said = Answer(ready=True), 0.0
    while True:
        answers.write(json.dumps(answer) + "\n")
        if tasks.empty() or time.monotonic() - said > SAY_EVERY_S:  # answers of short runs are sent in groups
            try:
                answers.flush()
            except BrokenPipeError:  # the sweep was killed; leaving at once closes no file, which would fail again
                os._exit(0)
            said = time.monotonic()
        answer = computer.compute(json.loads(tasks.get()))


def _read(tasks: SimpleQueue[str]) -> None:
    with os.fdopen(0, encoding="utf-8") as told:
        for line in told:
            if line.endswith("\n"):  # a killed sweep may leave a part of a task
                tasks.put(line)
    os._exit(0)


if __name__ == "__main__":
    serve()
