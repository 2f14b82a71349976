"""Scripts of packetdrill as tests of our TCP: find them, run them, and evaluate their Python assertions.

The core plays the packets (`crates/scenario/src/packetdrill`). Python of a script is evaluated here, without being
executed: only assertions over fields of `struct tcp_info`, constants, comparisons and arithmetic.
"""

from __future__ import annotations

import ast
import operator
import re
import textwrap
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from pauseframe._core import InputError, packetdrill
from pauseframe.files.kinds import refuse_other_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

CONSTANTS = {
    **{f"TCP_CA_{name}": value for value, name in enumerate(("Open", "Disorder", "CWR", "Recovery", "Loss"))},
    "TCP_INFINITE_SSTHRESH": 0x7FFFFFFF,
}
"""Names that packetdrill defines for its assertions."""
CALLS = (
    "accept bind cap_set close connect epoll_create epoll_ctl epoll_wait fcntl getsockopt ioctl listen open pipe poll "
    "read readv recv recvfrom recvmsg send sendfile sendmsg sendto setsockopt shutdown socket splice write writev"
)
SYSCTLS = (
    "tcp_abc tcp_adv_win_scale tcp_allowed_congestion_control tcp_app_win tcp_autocorking tcp_base_mss "
    "tcp_comp_sack_delay_ns tcp_comp_sack_nr tcp_comp_sack_slack_ns tcp_congestion_control tcp_dsack "
    "tcp_early_demux tcp_early_retrans "
    "tcp_ecn tcp_ecn_fallback tcp_fack tcp_fastopen tcp_fin_timeout tcp_frto tcp_invalid_ratelimit tcp_keepalive_intvl "
    "tcp_keepalive_probes tcp_keepalive_time tcp_limit_output_bytes tcp_low_latency tcp_max_reordering "
    "tcp_min_rtt_wlen tcp_min_snd_mss tcp_min_tso_segs tcp_moderate_rcvbuf tcp_mtu_probing tcp_no_metrics_save "
    "tcp_notsent_lowat tcp_orphan_retries tcp_pacing_ca_ratio tcp_pacing_ss_ratio tcp_recovery tcp_reflect_tos "
    "tcp_reordering tcp_retrans_collapse tcp_retries1 tcp_retries2 tcp_rmem tcp_sack tcp_shrink_window "
    "tcp_slow_start_after_idle tcp_syn_retries tcp_synack_retries tcp_syncookies tcp_thin_linear_timeouts "
    "tcp_timestamps tcp_tso_rtt_log tcp_tso_win_divisor tcp_tw_reuse tcp_window_scaling tcp_wmem"
)
OPTIONS = (
    "bind_port code_command code_format code_sockopt connect_port define dry_run init_scripts ip_version live_remote "
    "local_ip mss mtu netmask_ip non_fatal remote_ip send_omit_free so_filename speed tcp_ts_ecr_scaled "
    "tcp_ts_tick_usecs tolerance_percent tolerance_usecs tun_dev use_expect udp_encapsulate verbose wire_client "
    "wire_client_dev wire_server wire_server_dev wire_server_ip wire_server_port gateway_ip"
)
MISSPELT = {
    r"the call (\w+)\(": ("call", CALLS),
    r"the option --(\w+)": ("option", OPTIONS),
    r"the sysctl (\w+)": ("sysctl", SYSCTLS),
    r"the TCP option (\w+)": ("TCP option", "mss nop sack sackOK wscale TS FO FOEXP eol md5"),
    r'knows no "(\w+)" in a packet': ("word of a packet", "win ack urg"),
}
"""Reasons why the core takes a script as not applicable, and the names of packetdrill and Linux in that place."""
SIZE_MAX = 1 << 20
"""Bytes of a script; public ones have a few thousand."""
NO_FILE = "this is a device, a pipe or a socket: name a regular file"
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}


@dataclass(frozen=True)
class Result:
    """How a script ended; `line` and `reason` are empty where it passed."""

    file: Path
    verdict: Literal["pass", "fail", "not applicable"]
    line: int | None = None
    reason: str = ""


class _NotApplicableError(Exception):
    """An assertion uses what the model does not have."""


def find(paths: Iterable[Path]) -> list[Path]:
    """All scripts in these files and folders, sorted by path."""
    found: set[Path] = set()
    for path in paths:
        if path.is_dir():
            refuse_other_kinds(path, "a folder of packetdrill scripts (.pkt)")
            found.update(path.rglob("*.pkt"))
        elif path.is_file():
            refuse_other_kinds(path, "a packetdrill script (.pkt)", "packetdrill")
            found.add(path)
        else:
            raise InputError(f"{path}: {NO_FILE if path.exists() else 'there is no such file or folder'}")
    if not found:
        raise InputError(f"{', '.join(map(str, paths))}: no script found: packetdrill's scripts end in .pkt")
    return sorted(found)


def run(file: Path) -> Result:
    """Runs one script."""
    try:
        text = _text(file)
    except InputError as error:
        return Result(file, "fail", 1, str(error))
    verdict, line, reason, snippets = packetdrill(text, str(file.parent))
    names: dict[str, Any] = {}
    for at, code, values in snippets:
        fields = {**names, **dict(values)}
        try:
            broken = evaluate(code, fields)
        except _NotApplicableError as error:
            return Result(file, "not applicable", at, str(error))
        if broken is not None:
            return Result(file, "fail", at, broken)
        names = {name: value for name, value in fields.items() if not name.startswith("tcpi_")}
    if verdict == "not applicable" and (wrong := misspelt(reason)):
        return Result(file, "fail", line, wrong)
    return Result(file, verdict, line, reason)


def _text(file: Path) -> str:
    """The text of a script; InputError if it is no regular file, too long, or no text."""
    if not file.is_file():  # a pipe may have no writer, and a device no end
        raise InputError(NO_FILE if file.exists() else "a link to nothing")
    try:
        with file.open("rb") as opened:
            content = opened.read(SIZE_MAX + 1)
        if len(content) > SIZE_MAX:
            raise InputError(f"longer than {SIZE_MAX} bytes")
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read it: {error}") from None


def misspelt(reason: str) -> str | None:
    """What a script misspells, if it asks for what neither packetdrill nor Linux has, but for almost that."""
    for pattern, (what, words) in MISSPELT.items():
        names, found = words.split(), re.match(pattern, reason)
        if found is None or found[1] in names:
            continue
        if near := get_close_matches(found[1], names, 1, CLOSE):
            return f"no {what} is called {found[1]}: did you mean {near[0]}?"
    return None


CLOSE = 0.65
"""Likeness (difflib) from which a name is taken for a misspelling."""


def evaluate(code: str, fields: dict[str, Any]) -> str | None:
    """The first assertion of a snippet that does not hold, with the values in it; None if all hold.

    Assignments add to `fields`.
    """
    try:
        body = ast.parse(textwrap.dedent(code.replace("\\\n", "\n")).strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        try:
            body = ast.parse(" ".join(code.replace("\\\n", " ").split())).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise _NotApplicableError(f"Python that cannot be read: {error}") from error
    for statement in body:
        match statement:
            case ast.Assert(test=test):
                if not _value(test, fields):
                    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
                    values = ", ".join(f"{name} is {fields[name]}" for name in sorted(names & set(fields)))
                    return f"assert {ast.unparse(test)}: {values}"
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                fields[name] = _value(value, fields)
            case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
                pass
            case _:
                raise _NotApplicableError(f"Python other than assertions: {ast.unparse(statement)}")
    return None


def _value(node: ast.expr, fields: dict[str, Any]) -> Any:
    """The value of an expression; refuses everything but arithmetic over fields and constants."""
    result: Any
    match node:
        case ast.Constant(value=int() | float() | str() as value):
            result = value
        case ast.Name(id=name) if name in fields or name in CONSTANTS:
            result = fields.get(name, CONSTANTS.get(name))
        case ast.Name(id=name):
            raise _NotApplicableError(f"the field {name}")
        case ast.BoolOp(op=op, values=values):
            decide = all if isinstance(op, ast.And) else any
            result = decide(_value(value, fields) for value in values)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            result = _computed(OPERATORS[type(op)], _value(operand, fields))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            result = _computed(OPERATORS[type(op)], _value(left, fields), _value(right, fields))
        case ast.Compare(left=left, ops=ops, comparators=comparators) if all(type(op) in OPERATORS for op in ops):
            pairs = pairwise([_value(part, fields) for part in (left, *comparators)])
            result = all(_computed(OPERATORS[type(op)], *pair) for op, pair in zip(ops, pairs, strict=True))
        case _:
            raise _NotApplicableError(f"the expression {ast.unparse(node)}")
    return result


def _computed(function: Callable[..., Any], *values: Any) -> Any:
    try:
        return function(*values)
    except (TypeError, ArithmeticError) as error:
        raise _NotApplicableError(f"Python: {error}") from error
