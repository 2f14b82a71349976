"""`python -m pauseframe.sweep.worker`: a process that computes runs, one after another.

Takes a task a line on standard input (JSON) and answers each with a line on standard output. It ends when its input
does, even in the middle of a run: a worker does not outlive the sweep that was killed.
"""

from __future__ import annotations

import json
import os
import signal
import time
from queue import SimpleQueue
from threading import Thread

from pauseframe.sweep.task import Answer, Computer

SAY_EVERY_S = 0.02
"""Answers within so long of each other are told together."""


def serve() -> None:
    """Answers tasks until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep, which ends its workers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else may reach the sweep
    tasks: SimpleQueue[str] = SimpleQueue()
    Thread(target=_read, args=(tasks,), daemon=True).start()
    computer = Computer()
    answer, said = Answer(ready=True), 0.0
    while True:
        answers.write(json.dumps(answer) + "\n")
        if tasks.empty() or time.monotonic() - said > SAY_EVERY_S:  # the sweep need not wake up for each short run
            answers.flush()
            said = time.monotonic()
        answer = computer.compute(json.loads(tasks.get()))


def _read(tasks: SimpleQueue[str]) -> None:
    with os.fdopen(0, encoding="utf-8") as told:
        for line in told:
            tasks.put(line)
    os._exit(0)


if __name__ == "__main__":
    serve()
