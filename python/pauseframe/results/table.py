"""A table of results for notebooks: it has a length and rows, and displays itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from pauseframe.terminal.text import counted, none_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from pauseframe import _core


class NamedValues(dict[str, Any]):
    """A dict whose KeyError names the keys that were meant."""

    def __missing__(self, key: object) -> Any:
        raise KeyError(none_of(str(key), self))


def named(values: Any) -> Any:
    """The same values, with `NamedValues` in place of each dict."""
    return NamedValues({key: named(value) for key, value in values.items()}) if isinstance(values, dict) else values


class Table:
    """A table in Arrow's memory layout: polars, pandas, pyarrow and DuckDB read it without copying.

    `len(table)` is the number of rows, iteration yields rows as dicts, `table[0]` is the first row, and
    `table["fct_us"]` a column, which `"fct_us" in table` looks for.
    """

    def __init__(self, core: _core.Table) -> None:
        self._core = core

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._core.num_rows

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._core.column_names

    def to_polars(self) -> pl.DataFrame:
        """The table as a data frame."""
        import polars as pl

        return pl.DataFrame(self._core)

    def rows(self) -> list[dict[str, Any]]:
        """All rows of the table as dicts."""
        return self.to_polars().to_dicts()

    def __len__(self) -> int:
        return self._core.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.to_polars().iter_rows(named=True)

    def __contains__(self, key: object) -> bool:
        """True for the name of a column, and for a row."""
        return key in self.column_names if isinstance(key, str) else any(row == key for row in self)

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: str) -> pl.Series: ...
    @overload
    def __getitem__(self, key: slice) -> pl.DataFrame: ...
    def __getitem__(self, key: int | str | slice) -> dict[str, Any] | pl.Series | pl.DataFrame:
        if isinstance(key, slice):
            return self.to_polars()[key]
        if isinstance(key, str):
            if key not in self.column_names:
                raise KeyError(none_of(key, self.column_names))
            return self.to_polars()[key]
        if not -len(self) <= key < len(self):
            raise IndexError(f"the table has {counted(len(self), 'row')}, so none of number {key}")
        return self.to_polars().row(key, named=True)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._core.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._core.__arrow_c_schema__()

    def __repr__(self) -> str:
        return repr(self.to_polars())

    def _repr_html_(self) -> str:
        return self.to_polars()._repr_html_()
