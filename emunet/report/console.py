"""Where reports are printed: coloured on a terminal, plain aligned text elsewhere."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def make_console(file: IO[str] | None = None, width: int | None = None) -> Console:
    """Console for reports; obeys ``NO_COLOR`` and ``COLUMNS``.

    Parameters
    ----------
    file : text stream, optional
        Standard output if left out.
    width : int, optional
        Columns; the terminal's if left out, 80 elsewhere.
    """
    from rich.console import Console

    return Console(file=file, width=width, highlight=False, emoji=False, markup=False)


def new_table(*, header: bool = True) -> Table:
    """Empty table without lines: columns one space apart, the same on a terminal and in a log."""
    from rich.table import Table

    return Table(
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
        show_header=header,
    )


def print_table(console: Console, title: str, table: Table) -> None:
    """An empty line, the title, and the table."""
    console.print()
    console.print(title, style="bold cyan")
    console.print(table)


def print_line(console: Console, line: str, style: str | None = None) -> None:
    """A line that stays one line, however long."""
    console.print(line, style=style, soft_wrap=True)
