"""What tables are read from: a trace file or the memory of this process."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Source(Protocol):
    """Named arrays and attributes in groups."""

    @property
    def name(self) -> str:
        """The file as the user named it; empty in memory."""
        ...

    def length(self, group: str) -> int:
        """Rows of a table; 0 if the run has not got it."""
        ...

    def datasets(self, group: str) -> list[str]:
        """Names of the datasets of a group; none if the run has not got it."""
        ...

    def read(self, group: str, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows `start` to `stop` of a dataset."""
        ...

    def texts(self, group: str, name: str) -> list[str]:
        """Texts of a dataset; one for a single value, none if the run has not got it."""
        ...

    def attributes(self, group: str) -> dict[str, Any]:
        """Attributes of a group as Python values, its subgroups as dictionaries."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...
