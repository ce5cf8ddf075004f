"""The trace's schema: one table in the code, the same in the documentation and in the engine's
rows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from emunet._core import rows
from emunet.trace import schema
from emunet.verify import ROW_TYPES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trace_format.md"


def sections() -> dict[str, str]:
    """Tables of `docs/trace_format.md` by group."""
    parts = re.split(r"^### `/(.*)`$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("group", ["", *schema.groups()])
def test_the_page_repeats_the_schema(group: str) -> None:
    """Claim: docs/trace_format.md lists every dataset and attribute as the code has it;
    authority: the schema."""
    tables = [line for line in sections()[group].splitlines() if line.startswith("|")]
    expected = [line for line in schema.markdown(group).splitlines() if line]
    assert tables == expected, f"put into the page under `/{group}`:\n" + schema.markdown(group)


def test_the_page_has_no_other_groups() -> None:
    """Claim: the page documents nothing that is not in the schema."""
    assert list(sections()) == ["", *schema.groups()]


@pytest.mark.parametrize("key", sorted(schema.ROW_TABLES))
def test_every_field_of_a_row_has_a_column(key: str) -> None:
    """Claim: no field of an engine's rows is lost, and the types are equal; authority:
    `_core/rows.py`."""
    dtype = ROW_TYPES[key]
    _, columns, renamed = schema.ROW_TABLES[key]
    fields = {renamed.get(c.name, c.name): np.dtype(c.dtype) for c in columns}
    assert fields == {name: dtype[name] for name in dtype.names if name != "pad"}


def test_unfinished_columns_are_the_fields_of_the_row() -> None:
    """Claim: `/unfinished` stores `UNFINISHED_ROW` whole."""
    fields = {c.name: np.dtype(c.dtype) for c in schema.UNFINISHED_COLUMNS}
    assert fields == {name: rows.UNFINISHED_ROW[name] for name in rows.UNFINISHED_ROW.names}


def test_watermark_columns_are_the_fields_of_the_row() -> None:
    """Claim: `/watermarks` stores `WATERMARK_ROW` whole, in its order."""
    fields = [(c.name, np.dtype(c.dtype)) for c in schema.WATERMARK_COLUMNS]
    assert fields == [(name, rows.WATERMARK_ROW[name]) for name in rows.WATERMARK_ROW.names]


def test_datasets_are_named_once_and_end_in_their_unit() -> None:
    """Claim of the naming rule: units stand last in names, and no name stands twice in a group."""
    names = [(d.group, d.name) for d in schema.DATASETS]
    assert len(names) == len(set(names))
    for d in schema.DATASETS:
        assert d.meaning
        for unit, ending in (("ps", "_ps"), ("bytes", "_bytes"), ("bit/s", "_bps")):
            assert d.unit != unit or d.name.endswith(ending), d
