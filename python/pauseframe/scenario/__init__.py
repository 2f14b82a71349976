"""A scenario as Python objects: the keys of a scenario file under the same names.

Every class is a frozen dataclass and stands for one table of the file (`tables`, made from the declarations of keys);
`pauseframe options` prints what each key means. Quantities are texts with their unit ("10 Gbps", "240 us", "225 KB").
What is left at None gets its default from the core, which alone validates.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe._plain import part_from_plain, to_plain, toml_value
from pauseframe._problems import failure, problem
from pauseframe._table_names import SCHEMA_URL
from pauseframe.scenario.tables import ScenarioKeys

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Scenario(ScenarioKeys):
    """A scenario, to be given to `pauseframe.run`.

    >>> import pauseframe as pf
    >>> scenario = pf.Scenario(
    ...     topology=pf.Star(3, link=pf.Link("10 Gbps", "1 us")),
    ...     transport=pf.Transport(preset="dctcp"),
    ...     workload=[pf.NToOne(senders=2, size="1 MB")],
    ... )
    >>> pf.Scenario.from_toml(scenario.to_toml()) == scenario
    True
    """

    base_dir: str = field(default=".", compare=False, repr=False, metadata={"plain": False})
    """Where files named in the scenario are looked for."""

    def to_toml(self) -> str:
        """The scenario as a file; keys that are None do not appear."""
        import tomli_w

        return f"#:schema {SCHEMA_URL}\n\n{tomli_w.dumps(to_plain(self))}"

    @classmethod
    def from_toml(cls, text: str, *, base_dir: str = ".") -> Scenario:
        """Reads the text of a scenario file. Raises ScenarioError with every mistake in it."""
        return cls._read(text, base_dir, "scenario")

    @classmethod
    def from_file(cls, path: str | Path) -> Scenario:
        """Reads a scenario file. Raises ScenarioError with every mistake in it, OSError if it cannot be read."""
        return cls._read(*read_scenario_file(path))

    @classmethod
    def _read(cls, text: str, base_dir: str, file_name: str) -> Scenario:
        import tomllib
        from dataclasses import replace

        _core.resolve(text, base_dir=base_dir, file_name=file_name)
        return replace(part_from_plain(cls, tomllib.loads(text)), base_dir=base_dir)

    def resolve(self, *, seed: int | None = None, set: Mapping[str, Any] | None = None) -> _core.Resolved:
        """Fills in every default. Raises ScenarioError with every mistake."""
        return resolve_text(self.to_toml(), base_dir=self.base_dir, overrides=overrides(set), seed=seed)

    def show(self, *, seed: int | None = None, set: Mapping[str, Any] | None = None) -> Table:
        """Every key with its value and where that comes from, as a table that a terminal and Jupyter display."""
        from pauseframe._text import explain_table

        return explain_table(self.resolve(seed=seed, set=set))

    def _repr_html_(self) -> str:
        """Its file beside a picture of its topology, for a notebook; only the file while there are mistakes in it."""
        from html import escape

        from pauseframe.draw import picture

        file = f"<pre>{escape(self.to_toml())}</pre>"
        try:
            topology = _core.Topology.of_scenario(self.resolve())
        except ValueError:
            return file
        return f"{picture(topology)}{file}"


def overrides(set: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """`set={"switch.pfc.xoff": "96 KB"}` as the core takes it: paths and TOML values."""
    if set is not None and not isinstance(set, Mapping):
        raise TypeError(f'set = {set!r}: keys and their values are needed, such as {{"switch.pfc.xoff": "96 KB"}}')
    for path in set or {}:
        if not isinstance(path, str):
            raise TypeError(f'set: {path!r} is no key: it must be a text such as "switch.pfc.xoff"')
    return [(path, toml_value(value)) for path, value in (set or {}).items()]


def resolve_text(
    text: str,
    *,
    base_dir: str = ".",
    file_name: str = "scenario",
    overrides: Sequence[tuple[str, str]] = (),
    seed: int | None = None,
) -> _core.Resolved:
    """Fills in every default of a scenario's text. Raises ScenarioError with every mistake, in the arguments too."""
    if seed is not None and not (_is_whole(seed) and 0 <= seed < 2**64):
        raise failure([problem("seed", str(seed), "must be a whole number from 0 to 2^64 - 1")])
    try:
        return _core.resolve(text, base_dir=base_dir, file_name=file_name, overrides=overrides, seed=seed)
    except _core.ScenarioError as error:
        for entry in error.problems:
            if entry["path"] == "sweep" and entry["place"] != "--set":
                entry |= {"value": "", "message": SWEEP_FILE, "hint": ""}
        raise failure(error.problems) from None


def read_scenario_file(path: str | PathLike[str]) -> tuple[str, str, str]:
    """Text, folder and name of a scenario file; "-" is standard input.

    Raises ScenarioError if it is not text, FileNotFoundError or IsADirectoryError, which name what may be meant.
    """
    if not isinstance(path, str | PathLike):
        given = reprlib.repr(path)  # type: ignore[unreachable]
        message = f"{given} is no scenario: give a Scenario, the path of a scenario file, or the text of one"
        raise TypeError(message)
    path = Path(path)
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read().decode("utf-8"), ".", "standard input"
        return path.read_text(encoding="utf-8"), str(path.parent), str(path)
    except UnicodeDecodeError as error:
        raise failure(
            [problem(str(path), "", f"not UTF-8 text (byte {error.start}): name a scenario file (TOML)")]
        ) from None
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: there is no such file{_neighbours(path)}") from None
    except IsADirectoryError:
        inside = next((path / name for name in ("scenario.resolved.toml", "sweep.json") if (path / name).exists()), "")
        hint = f": did you mean {inside}, or pauseframe report {path}?" if inside else ""
        raise IsADirectoryError(f"{path} is a folder, not a scenario file{hint}") from None


SWEEP_FILE = "varies a scenario: it is for `pauseframe sweep` (`pauseframe validate` checks all its runs)"


def _is_whole(number: Any) -> bool:
    return hasattr(number, "__index__") and not isinstance(number, bool)


def _neighbours(path: Path) -> str:
    """'; did you mean incast.toml?', of scenario files in the folder."""
    from pauseframe._text import nearest

    folder = path.parent
    stems = sorted(file.stem for file in folder.glob("*.toml")) if folder.is_dir() else []
    meant = [str(folder / f"{stem}.toml") for stem in nearest(path.stem, stems)]
    return f"; did you mean {' or '.join(meant)}?" if meant else ""
