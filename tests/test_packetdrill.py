"""`pauseframe packetdrill`: scripts in folders, assertions in Python, the table and the exit code."""

import json
import os

import pytest
from pauseframe import InputError
from pauseframe.packetdrill import SIZE_MAX, evaluate, find, run
from test_fabrics import cli

START = """
`./defaults.sh`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
  +.1 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
   +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
  +.1 < . 1:1(0) ack 1 win 320
   +0 accept(3, ..., ...) = 4
   +0 write(4, ..., 4000) = 4000
   +0 > P. 1:4001(4000) ack 1
"""
RIGHT = START + "+0 %{ assert tcpi_snd_cwnd == 10 and tcpi_ca_state == TCP_CA_Open, tcpi_snd_cwnd }%\n"
WRONG = START + "+0 %{\nassert tcpi_unacked == 4\nassert tcpi_snd_cwnd < 10, 'small'\n}%\n"
OTHER = START + "+0 %{ assert tcpi_rwnd_limited == 0 }%\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "defaults.sh").write_text("#!/bin/bash\nsysctl -q net.ipv4.tcp_timestamps=0\n")
    for name, text in (("right", RIGHT), ("wrong", WRONG), ("other", OTHER)):
        (tmp_path / f"{name}.pkt").write_text(text)
    return tmp_path


def test_scripts_pass_fail_or_do_not_apply(folder):
    other, right, wrong = (run(file) for file in find([folder]))
    assert (right.verdict, right.line) == ("pass", None)
    assert (wrong.verdict, wrong.line) == ("fail", 12)
    assert wrong.reason == "assert tcpi_snd_cwnd < 10: tcpi_snd_cwnd is 10"
    assert (other.verdict, other.line, other.reason) == ("not applicable", 12, "the field tcpi_rwnd_limited")


def test_the_command_prints_a_table_and_fails_with_a_script(folder):
    done = cli("packetdrill", folder)
    assert done.returncode == 1
    assert "line 12: assert tcpi_snd_cwnd < 10" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 pass, 1 fail, 1 not applicable"
    done = cli("packetdrill", folder / "right.pkt", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["counts"] == {"pass": 1}


def test_files_that_are_no_scripts_are_named(tmp_path):
    with pytest.raises(InputError, match="no script found"):
        find([tmp_path])
    with pytest.raises(InputError, match="there is no such file or folder"):
        find([tmp_path / "nowhere"])
    (tmp_path / "binary.pkt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty.pkt").write_text("")
    binary, empty = (run(file) for file in find([tmp_path]))
    assert (binary.verdict, binary.line) == ("fail", 1)
    assert (empty.verdict, empty.reason) == ("not applicable", "no connection is established")


def test_devices_and_pipes_are_not_read(tmp_path):
    """A device has no end, and a pipe may have no writer."""
    os.mkfifo(tmp_path / "a.pkt")
    (tmp_path / "b.pkt").symlink_to("/dev/zero")
    (tmp_path / "c.pkt").symlink_to("nowhere")
    (tmp_path / "d.pkt").write_text("#" * (SIZE_MAX + 1))
    results = [run(file) for file in find([tmp_path])]
    assert [result.verdict for result in results] == ["fail"] * 4
    assert [result.reason.partition(":")[0] for result in results] == [
        "this is a device, a pipe or a socket",
        "this is a device, a pipe or a socket",
        "a link to nothing",
        f"longer than {SIZE_MAX} bytes",
    ]
    with pytest.raises(InputError, match=r"a\.pkt: this is a device, a pipe or a socket"):
        find([tmp_path / "a.pkt"])


@pytest.mark.parametrize(
    "code",
    [
        "assert open('/etc/passwd')",
        "import os",
        "assert [].__class__",
        "x[0] = 1",
        "x = open(1)",
        "assert 1 / 0",
        "assert (",
        "assert 9 ** 9",
    ],
)
def test_python_that_is_no_assertion_is_not_executed(code):
    with pytest.raises(Exception, match=r"Python|expression|Python other"):
        evaluate(code, {"tcpi_snd_cwnd": 10})


def test_assertions_are_evaluated():
    fields = {"tcpi_rtt": 100_000, "tcpi_snd_cwnd": 10}
    assert evaluate(" assert 90000 <= tcpi_rtt <= 110000; assert tcpi_snd_cwnd == 2 * 5;\\\n", fields) is None
    assert evaluate("most = 2 * 5\nassert tcpi_snd_cwnd <= most", fields) is None
    assert evaluate("assert not tcpi_snd_cwnd == 10", fields) == "assert not tcpi_snd_cwnd == 10: tcpi_snd_cwnd is 10"
    assert evaluate("\n# why\nassert tcpi_rtt > 1, 'cwnd=%d' % tcpi_snd_cwnd\nprint(tcpi_rtt)\n", fields) is None
