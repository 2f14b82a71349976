"""A scenario as Python objects: the keys of a scenario file under the same names.

Every class is a frozen dataclass for one table of the file (`tables`, generated from the declarations of keys);
`pauseframe options` explains each key. Quantities are texts with their unit ("10 Gbps", "240 us", "225 KB"). The core
fills in the defaults of keys that are None, and validates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe.files.reading import parse_toml
from pauseframe.scenario.plain import part_from_plain, to_plain
from pauseframe.scenario.table_names import SCHEMA_URL
from pauseframe.scenario.tables import ScenarioKeys
from pauseframe.scenario.text import read_scenario_file, resolve_changed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Scenario(ScenarioKeys):
    """A scenario for `pauseframe.run`.

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
    """Folder to which relative file names in the scenario refer."""

    def to_toml(self) -> str:
        """The scenario as the text of a scenario file; keys that are None do not appear."""
        import tomli_w

        return f"#:schema {SCHEMA_URL}\n\n{tomli_w.dumps(to_plain(self))}"

    @classmethod
    def from_toml(cls, text: str, *, base_dir: str = ".") -> Scenario:
        """Reads the text of a scenario file. Raises ScenarioError with every mistake in the text."""
        return cls._read(text, base_dir, "scenario")

    @classmethod
    def from_file(cls, path: str | Path) -> Scenario:
        """Reads a scenario file. Raises ScenarioError with every mistake, OSError if the file is unreadable."""
        return cls._read(*read_scenario_file(path))

    @classmethod
    def _read(cls, text: str, base_dir: str, file_name: str) -> Scenario:
        from dataclasses import replace

        _core.resolve(text, base_dir=base_dir, file_name=file_name)
        return replace(part_from_plain(cls, parse_toml(text)), base_dir=base_dir)

    def resolve(self, *, seed: int | None = None, set: Mapping[str, Any] | None = None) -> _core.Resolved:
        """Fills in every default. Raises ScenarioError with every mistake in the scenario."""
        return resolve_changed(self.to_toml(), base_dir=self.base_dir, set=set, seed=seed)

    def show(self, *, seed: int | None = None, set: Mapping[str, Any] | None = None) -> Table:
        """A table of every key with its value and origin, for terminals and Jupyter."""
        from pauseframe.terminal.text import explain_table

        return explain_table(self.resolve(seed=seed, set=set))

    def _repr_html_(self) -> str:
        """The scenario's text with a picture of its topology, for a notebook; without a picture if it has mistakes."""
        from html import escape

        from pauseframe.fabric.draw import picture

        file = f"<pre>{escape(self.to_toml())}</pre>"
        try:
            topology = _core.Topology.of_scenario(self.resolve())
        except ValueError:
            return file
        return f"{picture(topology)}{file}"
