"""Parallel applications written in Python: one program per rank, whose loops are unrolled before the run.

>>> import pauseframe as pf
>>> def ring(rank: pf.Program, ranks: int) -> None:
...     for _ in range(3):
...         rank.compute("10 us")
...         request = rank.isend((rank.rank + 1) % ranks, 20_000)
...         rank.recv((rank.rank - 1) % ranks)
...         rank.wait(request)
...     rank.allreduce(8)
>>> workload = pf.programs(4, lambda rank: ring(rank, 4))
>>> workload.program.splitlines()[:3]
['rank 0 of 4', 'comm 0 4 all', '10000 isend 0 1 20000 0']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pauseframe.scenario.plain import native
from pauseframe.scenario.tables import Application

if TYPE_CHECKING:
    from collections.abc import Callable

NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


class Program:
    """The program of one rank, step by step.

    Each method appends a step. Sizes are bytes, ranks count from 0, times are texts with a unit ("10 us") and are
    rounded to nanoseconds. Methods that begin with i return a request for `wait`.
    """

    def __init__(self, rank: int, ranks: int) -> None:
        self.rank = rank
        """Number of the rank, counted from 0."""
        self.ranks = ranks
        """Number of ranks."""
        self._lines = [f"rank {rank} of {ranks}", f"comm 0 {ranks} all"]
        self._compute = 0
        self._free: list[int] = []
        self._open: set[int] = set()
        self._slots = 0

    def compute(self, time: str) -> None:
        """Computes for a time such as "250 us"."""
        try:
            number, _, unit = time.strip().partition(" ")
            nanoseconds = float(number) * NANOSECONDS[unit.strip()]
        except (AttributeError, ValueError, KeyError):
            raise ValueError(f"{time!r} is not a time such as '10 us' (ns, us, ms, s)") from None
        if not 0 <= nanoseconds < 1e18:
            raise ValueError(f"{time!r} is not a time from 0 s on")
        self._compute += round(nanoseconds)

    def send(self, to: int, size: int, tag: int = 0) -> None:
        """Sends `size` bytes and continues when the buffer is free again."""
        self._step(f"send {self._peer(to)} {_size(size)} {_sent(tag)}")

    def recv(self, source: int | None = None, tag: int | None = None) -> None:
        """Receives a message; None accepts any source or tag."""
        self._step(f"recv {self._source(source)} any {_tag(tag)}")

    def isend(self, to: int, size: int, tag: int = 0) -> int:
        """Starts a send without waiting; returns a request for `wait`."""
        return self._begin("isend", f"{self._peer(to)} {_size(size)} {_sent(tag)}")

    def irecv(self, source: int | None = None, tag: int | None = None) -> int:
        """Posts a receive without waiting; returns a request for `wait`."""
        return self._begin("irecv", f"{self._source(source)} any {_tag(tag)}")

    def wait(self, *requests: int) -> None:
        """Waits until the given requests are complete, or all open requests if none is given."""
        names = requests or tuple(sorted(self._open))
        unknown = [request for request in names if request not in self._open]
        if unknown:
            raise ValueError(f"rank {self.rank} has no open request {unknown[0]}")
        if len(set(names)) < len(names):
            raise ValueError(f"rank {self.rank} waits for a request twice: {', '.join(map(str, names))}")
        if names:
            self._step("waitall " + " ".join(map(str, names)))
        for request in names:
            self._open.discard(request)
            self._free.append(request)

    def barrier(self) -> None:
        """Waits until all ranks have reached the same barrier."""
        self._step("barrier 0")

    def bcast(self, size: int, root: int = 0) -> None:
        """Broadcast: `size` bytes from `root` to all."""
        self._step(f"bcast 0 {self._peer(root)} {_size(size)}")

    def reduce(self, size: int, root: int = 0) -> None:
        """Reduce: the sum of vectors of `size` bytes to `root`."""
        self._step(f"reduce 0 {self._peer(root)} {_size(size)}")

    def allreduce(self, size: int) -> None:
        """All-reduce: the sum of vectors of `size` bytes to all."""
        self._step(f"allreduce 0 {_size(size)}")

    def alltoall(self, size: int) -> None:
        """All-to-all: `size` bytes from each rank to each rank."""
        self._step(f"alltoall 0 {_size(size)}")

    def allgather(self, size: int) -> None:
        """All-gather: a block of `size` bytes from each rank to all ranks."""
        self._step(f"allgather 0 {_size(size)}")

    def gather(self, size: int, root: int = 0) -> None:
        """Gather: a block of `size` bytes from each rank to `root`."""
        self._step(f"gather 0 {self._peer(root)} {_size(size)}")

    def scatter(self, size: int, root: int = 0) -> None:
        """Scatter: a block of `size` bytes from `root` to each rank."""
        self._step(f"scatter 0 {self._peer(root)} {_size(size)}")

    def reduce_scatter(self, size: int) -> None:
        """Reduce-scatter: to each rank, a block of `size` bytes of the sum."""
        self._step(f"reduce_scatter 0 {_size(size)}")

    def text(self) -> str:
        """The program as lines of a PMPI trace; ValueError if the program never waits for one of its requests."""
        if self._open:
            raise ValueError(f"rank {self.rank} ends with request {min(self._open)} open: wait() takes all that are")
        return "\n".join([*self._lines, f"end {self._compute}"])

    def _step(self, text: str) -> None:
        self._lines.append(f"{self._compute} {text}")
        self._compute = 0

    def _begin(self, operation: str, arguments: str) -> int:
        if self._free:
            request = self._free.pop()
        else:
            request = self._slots
            self._slots += 1
        self._open.add(request)
        self._step(f"{operation} {request} {arguments}")
        return request

    def _peer(self, rank: int) -> int:
        rank = native(rank)
        if not isinstance(rank, int) or not 0 <= rank < self.ranks:
            raise ValueError(f"there is no rank {rank!r} among {self.ranks}, counted from 0")
        return rank

    def _source(self, rank: int | None) -> str:
        return "any" if rank is None else str(self._peer(rank))


def _tag(tag: int | None) -> str:
    return "any" if tag is None else str(_sent(tag))


def _sent(tag: int) -> int:
    tag = native(tag)
    if not isinstance(tag, int) or not 0 <= tag < 1 << 31:
        raise ValueError(f"{tag!r} is not a tag: it must be a whole number from 0 on")
    return tag


def _size(size: int) -> int:
    size = native(size)
    if not isinstance(size, int):
        raise ValueError(f"{size!r} is not a size: it must be a whole number of bytes")
    if size < 0:
        raise ValueError(f"a message cannot have {size} bytes")
    return size


def programs(ranks: int, body: Callable[[Program], None], **keys: Any) -> Application:
    """A workload of `ranks` ranks. `body` writes the program of each rank; it is called once per rank, before the run.

    `keys` are those of `Application`, such as placement, start and compute_scale.
    """
    ranks = native(ranks)
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks = {ranks!r}: must be a whole number from 1 on")
    if not callable(body):
        raise TypeError(f"body = {body!r}: must be a function that writes the program of the rank that it is given")
    texts = []
    for rank in range(ranks):
        program = Program(rank, ranks)
        body(program)
        texts.append(program.text())
    return Application(program="\n".join(texts) + "\n", **keys)
