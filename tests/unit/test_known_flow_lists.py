"""Six ways in which flow lists go wrong, in every dialect: each has one outcome, as documented."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import emunet as api
from emunet.errors import InputFileError
from emunet.run import prepare

Row = tuple[int, int, int, str]
"""Source, destination, bytes, start in the file's unit."""

S, NS = 10**12, 10**3


def csv(rows: list[Row], count: int) -> str:
    lines = [f"{src},{dst},{size},{start}" for src, dst, size, start in rows]
    return "\n".join(["src,dst,size_bytes,start_ns", *lines]) + "\n"


def words(form: str, counted: bool) -> Callable[[list[Row], int], str]:
    """A writer of lines of one form, after a line with the count."""

    def write(rows: list[Row], count: int) -> str:
        lines = [form.format(src=a, dst=b, size=c, start=d) for a, b, c, d in rows]
        return "\n".join([*([str(count)] if counted else []), *lines]) + "\n"

    return write


def cm(rows: list[Row], count: int) -> str:
    lines = [f"{src}->{dst} start {start} size {size}" for src, dst, size, start in rows]
    return "\n".join(["Nodes 8", f"Connections {count}", *lines]) + "\n"


DIALECTS: dict[str, tuple[Callable[[list[Row], int], str], int]] = {
    "csv": (csv, NS),
    "list": (words("{src} {dst} {size} {start}", counted=False), NS),
    "hpcc": (words("{src} {dst} 3 100 {size} {start}", counted=True), S),
    "conweave": (words("{src} {dst} 3 {size} {start}", counted=True), S),
    "ns3-rdma": (words("{src} {dst} 3 {size} {start} 9.5", counted=True), S),
    "cm": (cm, 1),
}
"""Writer, and picoseconds of the unit of starts."""

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
NS3 = ("hpcc", "conweave", "ns3-rdma")


def messages(
    folder: Path, dialect: str, rows: list[Row], count: int | None = None, **options: Any
) -> tuple[list[tuple[int, ...]], str]:
    """(src, dst, bytes, ps) of the messages of a list in a scenario, and all that was said."""
    write, _ = DIALECTS[dialect]
    path = folder / "flows.txt"
    path.write_text(write(rows, len(rows) if count is None else count))
    flows = {"path": str(path), "dialect": dialect, **options}
    prepared = prepare({"topology": {"kind": "star", "hosts": 8}, "workload": [{"flows": flows}]})
    found: list[tuple[int, ...]] = []
    for chunk in prepared.stream:
        columns = (chunk.src, chunk.dst, chunk.size_bytes, chunk.start_ps)
        found += zip(*(column.tolist() for column in columns), strict=True)
    return found, "\n".join(prepared.warnings)


@each_dialect
def test_unsorted_starts_are_sorted_and_said(tmp_path: Path, dialect: str) -> None:
    """K19, workloads page: sorted by start, equal ones as in the file; how many is said."""
    unit = DIALECTS[dialect][1]
    rows = [(0, 1, 70_000, "3"), (1, 2, 70_000, "2"), (2, 3, 70_000, "3"), (3, 4, 70_000, "1")]
    found, said = messages(tmp_path, dialect, rows)
    assert found == [(3, 4, 70_000, unit), (1, 2, 70_000, 2 * unit), (0, 1, 70_000, 3 * unit),
                     (2, 3, 70_000, 3 * unit)]  # fmt: skip
    assert "not in order of start: 2 of 4 flows" in said and "sorted" in said


@pytest.mark.parametrize("dialect", [*NS3, "cm"])
def test_a_count_above_the_list_is_an_error_with_both_numbers(tmp_path: Path, dialect: str) -> None:
    """K19, workloads page: fewer flows than declared is an error, as in a list that lost its end.

    `lenient: true` takes what is there. (One such list announces 255 flows and holds 254.)
    """
    rows = [(0, 1 + i % 7, 70_000 + i, str(1 + i)) for i in range(254)]
    with pytest.raises(InputFileError, match=r'"255" .* declared, .* 254;'):
        messages(tmp_path, dialect, rows, 255)
    found, said = messages(tmp_path, dialect, rows, 255, lenient=True)
    assert len(found) == 254 and "255" in said


@pytest.mark.parametrize("dialect", [*NS3, "cm"])
def test_a_count_below_the_list(tmp_path: Path, dialect: str) -> None:
    """K19, workloads page: in lists of the ns-3 family the count wins, and the rest is counted.

    htsim cannot load such a matrix, so it is an error there, with both numbers.
    """
    rows = [(0, 1, 70_000, "1"), (1, 2, 70_000, "2"), (2, 3, 70_000, "3")]
    if dialect == "cm":
        with pytest.raises(InputFileError, match='"2" connections are declared, the file holds 3'):
            messages(tmp_path, dialect, rows, 2)
        return
    found, said = messages(tmp_path, dialect, rows, 2)
    assert found == [(0, 1, 70_000, S), (1, 2, 70_000, 2 * S)]
    n_word = {"hpcc": 6, "conweave": 5, "ns3-rdma": 6}[dialect]
    assert f"{n_word} extra words after the 2 declared flows ignored" in said


@each_dialect
def test_sizes_above_4_gib_are_whole(tmp_path: Path, dialect: str) -> None:
    """K19, workloads page: sizes have 64 bits; 2^32 and 2^32 + 1 stay what they are."""
    rows = [(0, 1, 2**32, "1"), (0, 2, 2**32 + 1, "2"), (0, 3, 10**13, "3")]
    found, _ = messages(tmp_path, dialect, rows)
    assert [size for _, _, size, _ in found] == [4_294_967_296, 4_294_967_297, 10**13]


@each_dialect
def test_a_flow_to_itself_is_an_error_with_its_place(tmp_path: Path, dialect: str) -> None:
    """K19, workloads page: a flow joins two hosts; the line and the host are named."""
    rows = [(0, 1, 70_000, "1"), (3, 3, 70_000, "2")]
    line = {"list": 2, "cm": 4}.get(dialect, 3)
    with pytest.raises(InputFileError, match=rf'flows.txt:{line}:\d+: "3.* a flow to itself'):
        messages(tmp_path, dialect, rows)


@each_dialect
def test_an_unknown_host_is_an_error_with_its_place(tmp_path: Path, dialect: str) -> None:
    """K19, workloads page: host 8 of 8; the line, the number and those that exist are named."""
    rows = [(0, 1, 70_000, "1"), (0, 8, 70_000, "2")]
    line = {"list": 2, "cm": 4}.get(dialect, 3)
    with pytest.raises(InputFileError, match=rf'flows.txt:{line}:\d+: "8" is not a .* 0 to 7'):
        messages(tmp_path, dialect, rows)


@each_dialect
def test_starts_with_a_point_are_exact(tmp_path: Path, dialect: str) -> None:
    """K19, workloads page: a start is decimal digits, to the picosecond, and never a float.

    0.1 s and 0.3 s have no double; 2.000000000001 s is 1 ps after 2 s. What is finer than 1 ps is
    rounded half to even, and said.
    """
    unit = DIALECTS[dialect][1]
    texts = ["0.1", "0.3", "2.000000000001", "2.000000000002"]
    rows = [(0, i + 1, 70_000, text) for i, text in enumerate(texts)]
    found, said = messages(tmp_path, dialect, rows)
    starts = [start for *_, start in found]
    if unit == S:
        assert starts == [10**11, 3 * 10**11, 2 * S + 1, 2 * S + 2]
        assert "finer" not in said
    elif unit == NS:
        assert starts == [100, 300, 2000, 2000]
        assert "finer than 1 ps: 2" in said
    else:
        assert starts == [0, 0, 2, 2]
        assert "finer than 1 ps: 4" in said


def test_a_list_with_all_that_is_tolerated_runs(tmp_path: Path) -> None:
    """K19 through the run: unsorted, counted short, 1 ps apart; every flow is delivered."""
    path = tmp_path / "flow.txt"
    path.write_text(
        "3\n0 1 3 100 9000 0.000002\n2 3 3 100 9000 0.000001000001\n4 5 3 100 9000 0.000001\n"
        "6 7 3 100 9000 0.000003\nThe last flow is not declared.\n"
    )
    result = api.run({"topology": {"kind": "star", "hosts": 8}, "workload": [{"flows": str(path)}]})
    flows = result.flows
    assert flows["src"].tolist() == [4, 2, 0]
    assert flows["start_ps"].tolist() == [1_000_000, 1_000_001, 2_000_000]
    assert len(set(flows["fct_rx_ps"].tolist())) == 1
