"""Tables of rich whose cells are plain text: names of people may look like rich's markup."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text


class PlainTable(Table):
    """A table that shows texts as they are. rich alone takes [x] for a style and :x: for a picture."""

    def __init__(self, title: str | None, **options: Any) -> None:
        # As wide as its title, which would break into syllables over a narrow table.
        super().__init__(title=None if title is None else Text(title), min_width=len(title or ""), **options)

    def add_column(self, header: Any = "", *rest: Any, **options: Any) -> None:
        """Adds a column with a plain heading."""
        super().add_column(as_text(header), *rest, **options)

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Adds a row of plain cells."""
        super().add_row(*map(as_text, cells), **options)


def as_text(value: Any) -> Any:
    """A str as rich's plain text; other values, such as coloured text, stay."""
    return Text(value) if isinstance(value, str) else value
