"""Damaged traces on the command line: exit code 2, file, line and reason, no traceback, no files left."""

from __future__ import annotations

import gzip
import subprocess
import sys
from typing import TYPE_CHECKING

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.run import resolve

if TYPE_CHECKING:
    from pathlib import Path

PMPI = """# npb-pmpi-trace 1
rank 0 of 2
comm 0 2 all
1000 isend 0 1 2000 7
0 wait 0
0 barrier 0
end 0
rank 1 of 2
comm 0 2 all
0 recv 0 4000 7
0 barrier 0
end 0
"""
GOAL = """num_ranks 2
rank 0 {
a: calc 1000
b: send 1000b to 1 tag 4
b requires a
}
rank 1 {
c: recv 1000b from 0 tag 4
}
"""
SIMGRID = """0 init
1 init
0 send 1 4 1000
1 recv 0 4 1000
0 finalize
1 finalize
"""


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protobuf message; all numbers in this file are below 128."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def node(number: int, kind: int, **values: int) -> bytes:
    """A Chakra node with its length prefix; its attributes are int32."""
    attributes = [field(1, name.encode()) + field(7, value) for name, value in values.items()]
    content = field(1, number) + field(2, b"n") + field(3, kind) + b"".join(field(10, one) for one in attributes)
    return bytes([len(content)]) + content


METADATA = bytes([7]) + field(1, b"0.0.4")
SEND = node(1, 5, comm_dst=1, comm_size=100)
RECEIVE = node(1, 6, comm_src=0, comm_size=100)


def chakra(folder: Path, *ranks: bytes) -> None:
    folder.mkdir()
    for rank, content in enumerate(ranks):
        (folder / f"t.{rank}.et").write_bytes(METADATA + content)


def scenario(folder: Path, trace: str) -> Path:
    path = folder / "job.toml"
    path.write_text(
        'name = "job"\n[topology]\nkind = "star"\nhosts = 2\nlink = { rate = "10 Gbps", delay = "1 us" }\n'
        f'[[workload]]\nkind = "application"\ntrace = "{trace}"\n'
    )
    return path


def refused(folder: Path, trace: str, *words: str) -> None:
    command = [sys.executable, "-m", "pauseframe", "run", str(scenario(folder, trace)), "--out", str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr.replace("\n", " ")
    assert not (folder / "out").exists()


TEXTS = [
    (PMPI, "7\n0 wait 0\n", "7\n", "t.txt:4: rank 0: begins request 0, for which nothing waits"),
    (PMPI, "recv 0 4000", "recv 0 -4", "t.txt:10: a size in bytes"),
    (PMPI, "recv 0 4000", "recv 5 4000", "t.txt:10: rank 1: names rank 5"),
    (
        PMPI,
        "recv 0 4000 7\n0 barrier 0",
        "barrier 0\n0 recv 0 4000 8",
        "t.txt:11: rank 1: waits for a message from rank 0",
    ),
    (PMPI, "recv 0 4000", "recv 0 400", "t.txt:10: rank 1: the message has 2000 bytes and the receive takes 400"),
    (GOAL, "requires a", "requires z", "t.txt:5: names label z"),
    (GOAL, "num_ranks 2", "num_ranks 3", "has no rank 2"),
    (GOAL, "from 0 tag 4", "from 0 tag 5", "t.txt:8: rank 1: waits for a message from rank 0 with tag 5"),
    (SIMGRID, "recv 0 4 1000", "recv 0 4 x", "t.txt:4: a size"),
    (SIMGRID, "1 finalize\n", "", "has no 'finalize' of rank 1"),
    (SIMGRID, "1 recv 0 4 1000\n", "", "t.txt: rank 1, step 0: no receive takes the message of 1000 bytes from rank 0"),
]


@pytest.mark.parametrize(("sample", "old", "new", "said"), TEXTS)
def test_texts(sample: str, old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in sample
    (tmp_path / "t.txt").write_text(sample.replace(old, new))
    refused(tmp_path, "t.txt", said)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((SEND, RECEIVE[:-2]), "t.1.et: is cut short or no Chakra trace: node 1"),
        ((SEND + SEND, RECEIVE), "t.0.et: node 1 (n): has the number of another node"),
        ((SEND,), "t.0.et: rank 0: node 1 of the file: names rank 1; there are ranks 0 to 0"),
        ((node(1, 5, comm_dst=1), RECEIVE), "t.0.et: node 1 (n): has no comm_size"),
        ((SEND, node(1, 6, comm_src=0, comm_size=100, comm_tag=3)), "t.1.et: rank 1, step 0: waits for a message"),
        ((SEND, b""), "no receive takes the message of 100 bytes from rank 0 with tag 0"),
    ],
)
def test_chakra(ranks: tuple[bytes, ...], said: str, tmp_path: Path) -> None:
    chakra(tmp_path / "et", *ranks)
    refused(tmp_path, "et", said)


def test_packed_files_that_are_broken(tmp_path: Path) -> None:
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(PMPI.encode())[:-12])
    refused(tmp_path, "t.txt.gz", "t.txt.gz: can", "be unpacked")
    (tmp_path / "t.txt.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(40))
    refused(tmp_path, "t.txt.zst", "t.txt.zst: can", "be unpacked")
    (tmp_path / "t.txt").write_bytes(b"")
    refused(tmp_path, "t.txt", "t.txt: is empty")


def test_samples_run_as_they_are(tmp_path: Path) -> None:
    """The undamaged samples of the cases above are valid, in each format."""
    chakra(tmp_path / "et", SEND, RECEIVE)
    for name, text in {"pmpi.txt": PMPI, "goal.txt": GOAL, "simgrid.txt": SIMGRID}.items():
        (tmp_path / name).write_text(text)
    for trace in ("pmpi.txt", "goal.txt", "simgrid.txt", "et"):
        run = pf.run(scenario(tmp_path, trace))
        assert pl.DataFrame(run.jobs)["finish_us"][0] > 0


def test_flops_count_in_traces_of_simgrid_alone(tmp_path: Path) -> None:
    chakra(tmp_path / "et", SEND, RECEIVE)
    for name, text in {"pmpi.txt": PMPI, "goal.txt": GOAL, "simgrid.txt": SIMGRID}.items():
        (tmp_path / name).write_text(text)
    for trace in ("pmpi.txt", "goal.txt", "simgrid.txt", "et"):
        for flops in (1e9, 2e9):
            warned = resolve(scenario(tmp_path, trace), set={"workload.0.flops": flops}).warnings
            idle = [one for one in warned if one.startswith("workload.0.flops: it changes nothing: ")]
            assert len(idle) == (flops != 1e9 and trace != "simgrid.txt"), (trace, flops, warned)
