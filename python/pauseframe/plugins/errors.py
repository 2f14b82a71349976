"""Keeps exceptions of plug-ins until the run has ended, because C functions cannot propagate them."""

from __future__ import annotations

import re
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pauseframe._core import RunError
from pauseframe.plugins.classes import registered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_raised: list[BaseException] = []


def remember(error: BaseException) -> None:
    """Stores the exception if it is the first one."""
    if not _raised:
        _raised.append(error)


@contextmanager
def plugin_errors() -> Iterator[None]:
    """Adds a plug-in's exception to the error of a run.

    An interrupt in a plug-in's code is raised as KeyboardInterrupt.
    """
    before = sys.unraisablehook
    sys.unraisablehook = _hear  # compiled code reports exceptions to sys.unraisablehook
    _raised.clear()
    try:
        yield
    except RunError as error:
        if not _raised:
            if place := place_of_method(str(error)):
                raise RunError(f"{error} ({place})") from None
            raise
        cause = _raised[0]
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        raise RunError(with_cause(str(error), cause)) from cause
    finally:
        sys.unraisablehook = before
        _raised.clear()


def _hear(unraisable: sys.UnraisableHookArgs) -> None:
    if unraisable.exc_value is not None:
        remember(unraisable.exc_value)


@contextmanager
def heard() -> Iterator[list[BaseException]]:
    """Collects the first exception of compiled code, which otherwise writes a traceback to stderr."""
    before = sys.unraisablehook
    sys.unraisablehook = _hear
    _raised.clear()
    try:
        yield _raised
    finally:
        sys.unraisablehook = before


def with_cause(message: str, cause: BaseException) -> str:
    """The core's message about a function that failed, with the exception in place of what the function returned."""
    method = place_of_method(message)
    hint = "; compile=False names the line" if _is_compiled(message) else ""
    place = _last_frame(cause.__traceback__) or (f" ({method}{hint})" if method else "")
    raised = f"raised {type(cause).__name__}: {cause}{place}"
    told, count = re.subn(
        r"(its function \w+) (?:reported an error|set .*?|gave .*?|returned .*?)(?=\. The run of |$)",
        lambda found: f"{found[1]} {raised}",
        message,
        count=1,
    )
    return told if count else f"{message}. It {raised}"


def _last_frame(trace: TracebackType | None) -> str:
    """The user's line; compiled code leaves none."""
    frames = [frame for frame in traceback.extract_tb(trace) if "/pauseframe/" not in frame.filename]
    return f" ({frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""


def _is_compiled(message: str) -> bool:
    found = re.search(r'congestion control "([^"]+)"', message)
    description = registered.get(found[1]) if found else None
    return description is None or description.compile


def place_of_method(message: str) -> str:
    """File and line of the method that the core's message names; "" if it names none."""
    found = re.search(r'congestion control "([^"]+)".*?its function (\w+)', message)
    description = registered.get(found[1]) if found else None
    if found is None or description is None or found[2] not in description.functions:
        return ""
    return description.place(found[2])
