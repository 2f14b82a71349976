"""The text of a scenario: read from a file, changed by command-line options, resolved by the core.

This module is separate from `document`, because the seventy classes there take longer to create than a small
run takes.
"""

from __future__ import annotations

import re
import reprlib
import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe.files.reading import parse_toml, read_bytes, read_standard_input
from pauseframe.scenario.plain import toml_value
from pauseframe.terminal.problems import failure, problem

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from pauseframe.scenario.document import Scenario
    from pauseframe.types import Problem


def is_scenario(value: object) -> TypeIs[Scenario]:
    """True for a `Scenario`, without loading that class if no scenario object exists."""
    module = sys.modules.get("pauseframe.scenario.document")
    return module is not None and isinstance(value, module.Scenario)


def _not_utf8(error: UnicodeDecodeError) -> str:
    """Why a file is no scenario: another encoding, or no text."""
    if error.object[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "UTF-16 text: save the file as UTF-8"
    return f"not UTF-8 text (byte {error.start}): name a scenario file (TOML), or save it as UTF-8"


def overrides(set: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """`set={"switch.pfc.xoff": "96 KB"}` in the form of the core: paths and TOML values."""
    if set is not None and not isinstance(set, Mapping):
        raise TypeError(f'set = {set!r}: keys and their values are needed, such as {{"switch.pfc.xoff": "96 KB"}}')
    for path in set or {}:
        if not isinstance(path, str):
            raise TypeError(f'set: {path!r} is no key: it must be a text such as "switch.pfc.xoff"')
    return [(path, toml_value(value)) for path, value in (set or {}).items()]


def resolve_changed(
    text: str, *, base_dir: str, file_name: str = "scenario", set: Mapping[str, Any] | None, seed: int | None
) -> _core.Resolved:
    """`resolve_text` for a caller in Python, whose mistakes in `set` have the place "set" and not "--set"."""
    try:
        return resolve_text(text, base_dir=base_dir, file_name=file_name, overrides=overrides(set), seed=seed)
    except _core.ScenarioError as error:
        raise failure(map(_in_python, error.problems)) from None


def _in_python(one: Problem) -> Problem:
    """A mistake in the words of the Python interface."""
    hint = re.sub(r"--set (\S+)=VALUE", r'set={"\1": VALUE}', one["hint"])
    place = one["place"]
    return one | {"place": place.removeprefix("--") if place in ("--set", "--seed") else place, "hint": hint}


def resolve_text(
    text: str,
    *,
    base_dir: str = ".",
    file_name: str = "scenario",
    overrides: Sequence[tuple[str, str]] = (),
    seed: int | None = None,
) -> _core.Resolved:
    """Fills in every default of a scenario; ScenarioError lists every mistake in scenario and arguments."""
    if seed is not None and not (_is_whole(seed) and 0 <= seed < 2**64):
        raise failure([problem("seed", str(seed), "must be a whole number from 0 to 2^64 - 1")])
    try:
        return _core.resolve(text, base_dir=base_dir, file_name=file_name, overrides=overrides, seed=seed)
    except _core.ScenarioError as error:
        for entry in error.problems:
            if entry["path"] in OTHER_COMMANDS and entry["place"] != "--set":
                entry |= {"value": "", "message": OTHER_COMMANDS[entry["path"]], "hint": ""}
        raise failure(error.problems) from None


def source_of(scenario: Scenario | _core.Resolved | str | PathLike[str]) -> tuple[str, str, str]:
    """Text, folder and name of a scenario: an object, the path of a file, or the text of one (with line breaks)."""
    if is_scenario(scenario):
        return scenario.to_toml(), scenario.base_dir, "scenario"
    if isinstance(scenario, _core.Resolved):
        return scenario.toml, ".", "scenario"
    if isinstance(scenario, str) and "\n" in scenario:
        return scenario, ".", "scenario"
    return read_scenario_file(scenario)


def without_plugins(text: str) -> str:
    """The scenario without plug-ins, for readers of results who need only its network."""
    if ":" not in text or "plugins" not in text:
        return text
    try:
        document = parse_toml(text)
    except ValueError:
        return text
    if document.pop("plugins", None) is None:
        return text
    transports = document.get("transports", {})
    named = list(transports.values()) if isinstance(transports, dict) else []
    for table in [document.get("transport"), *named]:
        control = table.get("congestion_control") if isinstance(table, dict) else None
        if not isinstance(control, str) or ":" not in control:
            continue
        prefix = control.partition(":")[2].lower() + "_"
        for key in [key for key in table if key.startswith(prefix)]:
            del table[key]
        table["congestion_control"] = "newreno"
    import tomli_w

    return tomli_w.dumps(document)


def read_scenario_file(path: str | PathLike[str]) -> tuple[str, str, str]:
    """Text, folder and name of a scenario file; "-" is standard input.

    Raises InputError for a file of another kind, ScenarioError if the file is not text; FileNotFoundError and
    IsADirectoryError suggest similar names.
    """
    if not isinstance(path, str | PathLike):
        given = reprlib.repr(path)  # type: ignore[unreachable]
        message = f"{given} is no scenario: give a Scenario, the path of a scenario file, or the text of one"
        raise TypeError(message)
    path = Path(path)
    if path.suffix != ".toml" and path.exists():
        from pauseframe.files.kinds import refuse_other_kinds

        refuse_other_kinds(path, "a scenario file (TOML)", "run", "scenario")
    try:
        if str(path) == "-":
            return read_standard_input().decode("utf-8"), ".", "standard input"
        return read_bytes(path).decode("utf-8"), str(path.parent), str(path)
    except UnicodeDecodeError as error:
        raise failure([problem(str(path), "", _not_utf8(error))]) from None
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: there is no such file{_neighbours(path)}") from None
    except IsADirectoryError:
        inside = path / "scenario.resolved.toml"
        hint = f": did you mean {inside}, or pauseframe report {path}?" if inside.exists() else ""
        raise IsADirectoryError(f"{path} is a folder, not a scenario file{hint}") from None


OTHER_COMMANDS = {
    "sweep": "varies a scenario: it is for `pauseframe sweep` (`pauseframe validate` checks all its runs)",
    "tune": "searches for a good setting: it is for `pauseframe tune` (`pauseframe validate` checks it)",
}
"""Tables of a scenario file that are not part of the scenario, and the commands that use them."""


def _is_whole(number: Any) -> bool:
    return hasattr(number, "__index__") and not isinstance(number, bool)


def _neighbours(path: Path) -> str:
    """A hint such as '; did you mean incast.toml?', from the scenario files in the folder."""
    from pauseframe.terminal.text import nearest

    folder = path.parent
    stems = sorted(file.stem for file in folder.glob("*.toml")) if folder.is_dir() else []
    meant = [str(folder / f"{stem}.toml") for stem in nearest(path.stem, stems)]
    return f"; did you mean {' or '.join(meant)}?" if meant else ""
