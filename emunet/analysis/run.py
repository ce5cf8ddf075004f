"""A run to look at: its tables and its summary."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from emunet.analysis.faults import faults
from emunet.analysis.summary import summary
from emunet.analysis.watermarks import watermarks
from emunet.trace.tables import Tables

if TYPE_CHECKING:
    import pandas as pd


class Run(Tables):
    """A finished or broken-off run: the tables of its trace, and what they add up to.

    Examples
    --------
    >>> run = emunet.load("run.h5")                     # doctest: +SKIP
    >>> run.flows.groupby("size_bytes").slowdown.max()  # doctest: +SKIP
    >>> run.summary["flows"]["slowdown"]["p99"]         # doctest: +SKIP
    """

    @cached_property
    def summary(self) -> dict[str, Any]:
        """See `emunet.analysis.summary`."""
        return summary(self)

    @cached_property
    def watermarks(self) -> dict[str, pd.DataFrame]:
        """Frames ``queues``, ``priority_groups`` and ``pools``: `emunet.analysis.watermarks`."""
        import pandas as pd

        found = watermarks(self)
        return {name: pd.DataFrame(part) for name, part in found.items() if isinstance(part, list)}

    @cached_property
    def faults(self) -> pd.DataFrame:
        """When links went down and up, and who knew when: `emunet.analysis.faults`."""
        return faults(self)

    def __enter__(self) -> Run:
        return self

    def __repr__(self) -> str:
        n_flow = self.source.length("flows")
        return (
            f"<emunet.Run {self.name or 'in memory'}: {n_flow:,} flows, {self.meta.get('reason')}>"
        )


def load(path: str | os.PathLike[str]) -> Run:
    """Open a trace file.

    Parameters
    ----------
    path : path-like
        A trace, or the ``.part`` file of a run that was killed.

    Raises
    ------
    InputFileError
        The file is not there, cut short, or not a trace that this version reads.
    """
    from emunet.trace.reader import FileSource

    return Run(FileSource(path))
