"""Flow lists: each dialect is recognised, read exactly, and written back the same."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunet.errors import EmunetError, InputFileError
from emunet.ingest import flows_cm, flows_csv
from emunet.ingest.flows_read import describe_flows, dialects, read_flows
from emunet.ingest.flows_table import FlowFileInfo, FlowTable, Hosts

ROOT = Path(__file__).resolve().parents[2]
HOSTS = Hosts(64, [f"host{i}" for i in range(64)] + ["leaf0"])
PS_PER_NS, PS_PER_US, PS_PER_S = 10**3, 10**6, 10**12


def put(folder: Path, text: str | bytes, name: str = "flows.txt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows(table: FlowTable) -> list[tuple[int, ...]]:
    """(src, dst, bytes, start in ps) of every flow."""
    columns = (table.src, table.dst, table.size_bytes, table.start_ps)
    return [tuple(int(x) for x in row) for row in zip(*columns, strict=True)]


FLOWS = [(0, 1, 1500, 0), (2, 3, 1, 1500 * PS_PER_NS), (1, 0, 3_000_000, 2 * PS_PER_S)]

SAME = {
    "csv": "src,dst,size_bytes,start_ns\n0,1,1500,0\n2,3,1,1500\n1,0,3000000,2000000000\n",
    "csv columns in another order": (
        "# made by hand\nstart_us,tag,dst,size_KB,src\n0,,1,1.5,0\n1.5,x,3,0.001,2\n2e6,,0,3000,1\n"
    ),
    "csv with names": (
        "source,destination,size_B,start_s\nhost0,1,1500,0\n"
        '"host2",host3,1,0.0000015 # late\nhost1,host0,3e6,2\n'
    ),
    "list": "0 1 1500 0\n2\t3  1 1500\n1 0 3000000 2000000000",
    "hpcc": "3\n0 1 3 100 1500 0\n2 3 3 100 1 0.0000015\n1 0 3 200 3000000 2.000000\n",
    "conweave": "3\n0 1 3 1500 0\n2 3 3 1 0.0000015\n1 0 3 3000000 2\n",
    "ns3-rdma": "3\n0 1 3 1500 0.0 9.5\n2 3 3 1 0.0000015 9.5\n1 0 3 3000000 2.0 9.5\n",
    "cm": (
        "Nodes 64\nConnections 3\nTriggers 0\n0->1 id 1 start 0 size 1500\n"
        "2->3 start 1500000 size 1 id 2 prio 1\n1->0 id 3 msg start 2000000000000 size 3000000\n\n"
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_every_dialect_says_the_same(tmp_path: Path, name: str) -> None:
    """Claim of docs/workloads.md: the same flows in any dialect are the same integers."""
    table = read_flows(put(tmp_path, SAME[name]), hosts=HOSTS)
    assert rows(table) == FLOWS
    assert table.info.dialect == name.split()[0]
    assert table.info.total_bytes == 3_001_501


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("form", ["CRLF", "BOM", "gzip", "no final newline", "blank lines"])
def test_forms_of_text_are_tolerated(tmp_path: Path, name: str, form: str) -> None:
    """Claim: line ends, byte-order marks, gzip and blank lines do not change what is read."""
    text = SAME[name]
    data = {
        "CRLF": text.replace("\n", "\r\n").encode(),
        "BOM": b"\xef\xbb\xbf" + text.encode(),
        "gzip": gzip.compress(text.encode()),
        "no final newline": text.rstrip("\n").encode(),
        "blank lines": ("\n" + text.replace("\n", "\n \n")).encode(),
    }[form]
    table = read_flows(put(tmp_path, data), hosts=HOSTS)
    assert rows(table) == FLOWS
    assert table.info.compressed == (form == "gzip")


@pytest.mark.parametrize(
    ("header", "size", "start", "size_bytes", "start_ps"),
    [
        ("size_bytes,start_ps", "7", "7", 7, 7),
        ("size_B,start_ns", "7", "0.25", 7, 250),
        ("size_kB,start_us", "1.5", "0.000001", 1500, 1),
        ("size_KB,start_ms", "1.5", "1", 1500, 10**9),
        ("size_KiB,start_s", "1.5", "1", 1536, 10**12),
        ("size_MB,start_s", "0.000001", "1.000000000001", 1, 10**12 + 1),
        ("size_MiB,start_S", "1", "9223372.036854775807", 2**20, 2**63 - 1),
        ("size_GB,START_NS", "9.2", "1e3", 9_200_000_000, 10**6),
        ("size_GiB,start_ns", "4", "4294967296", 2**32, 2**32 * 1000),
        ("SIZE_BYTES,start_ns", "9223372036854775807", "0", 2**63 - 1, 0),
    ],
)
def test_units_of_the_header_are_exact(
    tmp_path: Path, header: str, size: str, start: str, size_bytes: int, start_ps: int
) -> None:
    """Claim: values are decimal digits times the unit of the column, in 64-bit integers."""
    path = put(tmp_path, f"src,dst,{header}\n5,6,{size},{start}\n")
    assert rows(read_flows(path)) == [(5, 6, size_bytes, start_ps)]


def test_optional_columns_are_carried(tmp_path: Path) -> None:
    """Claim: class, id and tag may be empty cell by cell; a tag in quotes may hold any sign."""
    path = put(
        tmp_path,
        "src,dst,size_bytes,start_ns,class,id,tag\n0,1,5,0,3,77,map\n0,1,5,1,,,\n"
        '1,0,5,2,0,0,"a ""b"", #c"\n1,0,5,3,7,9,map\n',
    )
    table = read_flows(path)
    assert table.klass.tolist() == [3, -1, 0, 7]
    assert table.id.tolist() == [77, -1, 0, 9]
    assert [table.tags[t] if t >= 0 else "" for t in table.tag] == ["map", "", 'a "b", #c', "map"]


def test_ns3_priority_groups_are_classes(tmp_path: Path) -> None:
    """Claim: the third word of a flow.txt line is the priority class."""
    assert read_flows(put(tmp_path, "2\n0 1 3 9 5 0\n1 0 6 9 5 0\n")).klass.tolist() == [3, 6]


def test_the_header_wins_in_ns3_files(tmp_path: Path) -> None:
    """Claim: as in ns-3, N flows are read; later records and prose are counted and reported."""
    text = (
        "2\n0 1 3 100 9 2\n1 2 3 100 9 2.5\n2 3 3 100 9 3\n\n"
        "First line: flow count\nplease keep flows in ascending order!\n"
    )
    info = read_flows(put(tmp_path, text)).info
    assert (info.declared_count, info.found_count, info.extra_token_count) == (2, 2, 16)
    assert info.warnings == ["16 extra words after the 2 declared flows ignored"]


def test_too_few_ns3_flows_pass_only_when_lenient(tmp_path: Path) -> None:
    """Claim: a count above what the file holds is an error with both numbers, or a warning."""
    path = put(tmp_path, "3\n0 1 3 100 9 2\n")
    with pytest.raises(InputFileError, match='"3" flows are declared, the file ends after 1'):
        read_flows(path)
    table = read_flows(path, lenient=True)
    assert table.info.warnings == ["3 flows are declared, the file holds 1; those are taken"]


def test_the_two_six_word_forms_are_told_apart(tmp_path: Path) -> None:
    """Claim: a port fits 16 bits and bytes are whole; otherwise it is size, start, stop."""
    port = read_flows(put(tmp_path, "1\n2 1 3 100 200000000 2\n"))
    assert (port.info.dialect, rows(port)) == ("hpcc", [(2, 1, 200_000_000, 2 * PS_PER_S)])
    stop = read_flows(put(tmp_path, "1\n2 1 3 10000000 2.0 9.5\n"))
    assert (stop.info.dialect, rows(stop)) == ("ns3-rdma", [(2, 1, 10_000_000, 2 * PS_PER_S)])
    assert stop.info.warnings == ["stop times are ignored: a flow ends with its last byte"]
    unclear = put(tmp_path, "1\n2 1 3 100 2 9\n")
    with pytest.raises(InputFileError, match="fits two dialects"):
        read_flows(unclear)
    assert rows(read_flows(unclear, dialect="hpcc")) == [(2, 1, 2, 9 * PS_PER_S)]
    assert rows(read_flows(unclear, dialect="ns3-rdma")) == [(2, 1, 100, 2 * PS_PER_S)]


def test_matrices_are_ps_unless_said_otherwise(tmp_path: Path) -> None:
    """Claim: starts are ps as in htsim's loader, us on demand; suspiciously short ones are said."""
    path = put(tmp_path, "Nodes 8\nConnections 2\n1->0 start 15 size 9\n2->0 start 3 size 9\n")
    table = read_flows(path)
    assert table.start_ps.tolist() == [3, 15]
    assert table.info.warnings == [
        "all starts lie within 15 ps; older generators wrote us (unit: us)",
        "not in order of start: 1 of 2 flows start before the one above them; "
        "sorted (equal starts keep the order of the file)",
    ]
    assert read_flows(path, start_unit="us").start_ps.tolist() == [3 * PS_PER_US, 15 * PS_PER_US]


def test_counts_of_a_matrix_must_agree_unless_lenient(tmp_path: Path) -> None:
    """Claim: as in htsim, a wrong count of connections is an error with both numbers."""
    path = put(tmp_path, "Nodes 8\nConnections 4\n1->0 start 0 size 9\n")
    with pytest.raises(InputFileError, match="declared, the file holds 1"):
        read_flows(path)
    info = read_flows(path, lenient=True).info
    assert (info.declared_count, info.found_count) == (4, 1)
    assert info.warnings == ["4 connections are declared, the file holds 1; the 1 are taken"]


def test_a_matrix_for_fewer_hosts_is_said(tmp_path: Path) -> None:
    """Claim: a matrix may use a part of the hosts; the user is told."""
    table = read_flows(put(tmp_path, "Nodes 8\nConnections 1\n1->0 start 0 size 9\n"), hosts=HOSTS)
    assert table.info.warnings == ["the matrix is for 8 nodes; the topology has 64 hosts"]


def test_messages_of_one_connection_are_kept(tmp_path: Path) -> None:
    """Claim: ``msg`` without a number does not shift the words behind it; repeats are reported."""
    text = "Nodes 2\nConnections 3\n" + "0->1 id 1 msg start 0 size 40860\n" * 3
    info = read_flows(put(tmp_path, text)).info
    assert (info.found_count, info.duplicate_count) == (3, 2)
    assert info.warnings[0] == "3 messages of shared connections run on a connection each"


def test_sorting_is_stable_and_said(tmp_path: Path) -> None:
    """Claim: flows are put in order of start; equal starts keep the order of the file."""
    text = "src,dst,size_bytes,start_ns,id\n0,1,5,7,1\n0,2,5,7,2\n0,3,5,3,3\n0,4,5,7,4\n0,5,5,3,5\n"
    table = read_flows(put(tmp_path, text))
    assert table.id.tolist() == [3, 5, 1, 2, 4]
    assert table.info.unsorted_count == 2
    assert "sorted" in table.info.warnings[0]


def test_starts_finer_than_a_picosecond_are_rounded_and_said(tmp_path: Path) -> None:
    """Claim: digits below 1 ps are rounded half to even, never through a float."""
    text = "3\n0 1 3 9 5 2.0000000000005\n0 1 3 9 5 2.0000000000015\n0 1 3 9 5 2.0000000000030\n"
    table = read_flows(put(tmp_path, text))
    assert (table.start_ps - 2 * PS_PER_S).tolist() == [0, 2, 3]
    assert "starts finer than 1 ps: 2; rounded to the nearest" in table.info.warnings


def test_close_starts_late_in_a_run_stay_apart(tmp_path: Path) -> None:
    """K26: two starts 1 ps apart at 1 s, and a size of 4 GiB + 1, are exact."""
    text = (
        "Nodes 4\nConnections 2\n0->1 id 1 start 1000000000000 size 4294967297\n"
        "0->1 id 2 start 1000000000001 size 4294967297\n"
    )
    assert rows(read_flows(put(tmp_path, text))) == [
        (0, 1, 2**32 + 1, 10**12),
        (0, 1, 2**32 + 1, 10**12 + 1),
    ]


def test_a_survey_counts_what_a_run_refuses(tmp_path: Path) -> None:
    """Claim: ``trace info`` counts self-flows, unknown hosts and empty flows and goes on."""
    text = (
        "src,dst,size_bytes,start_ns\n0,1,5,0\n3,3,5,0\n0,99,5,0\n0,2,0,4\n0,1,5,0\nhostx,1,2,9\n"
    )
    info = describe_flows(put(tmp_path, text), hosts=HOSTS)
    assert info.self_flow_count == 1
    assert info.unknown_host_count == 2
    assert info.zero_size_count == 1
    assert info.found_count == 2
    assert info.duplicate_count == 1
    shown = "\n".join(info.lines())
    assert "1 self-flows, 2 with unknown hosts, 1 of 0 bytes" in shown
    assert "first     0 -> 1  5 bytes at 0ps" in shown


def test_names_without_a_topology_are_counted(tmp_path: Path) -> None:
    """Claim: a list that names hosts can be described before there is a topology."""
    text = "src,dst,size_bytes,start_us\ngpu-a,gpu-b,5,1\ngpu-b,gpu-c,5,2\n"
    info = describe_flows(put(tmp_path, text))
    assert info.n_host_used == 3
    assert info.first_flows == ["gpu-a -> gpu-b  5 bytes at 1us", "gpu-b -> gpu-c  5 bytes at 2us"]


def test_the_description_says_what_was_sniffed(tmp_path: Path) -> None:
    """Claim of docs/workloads.md: dialect, counts, units, span, bytes, greatest size, oddities."""
    path = put(tmp_path, SAME["hpcc"], "flow.txt")
    lines = describe_flows(path, name="flow.txt").lines()
    assert lines[:7] == [
        "file      flow.txt",
        "dialect   hpcc: line 2 has six numbers, the fourth a port, the fifth whole bytes",
        "units     sizes in bytes, starts in s",
        "flows     3 found, 3 declared; 4 hosts used",
        "starts    0ps to 2s",
        "bytes     3001501 in all (3.002MB), sizes 1 to 3000000",
        "oddities  0 out of order, 0 duplicates, 0 self-flows, 0 with unknown hosts, 0 of 0 bytes",
    ]


def test_the_published_list_is_what_its_readme_says() -> None:
    """Claim of traces/README.md: 4,372 flows of 648 hosts, 8,312,318,103 bytes, in order."""
    info = read_flows(ROOT / "traces" / "opera_websearch_1pct_648hosts.htsim").info
    assert (info.dialect, info.start_unit, info.found_count) == ("list", "ns", 4372)
    assert (info.n_host_used, info.total_bytes) == (648, 8_312_318_103)
    assert (info.min_size_bytes, info.max_size_bytes) == (5971, 28_589_215)
    assert info.warnings == []


def test_every_dialect_has_a_line_about_it() -> None:
    """Claim: a dialect is one module; the list of dialects follows from the modules."""
    assert set(dialects()) == {"csv", "list", "hpcc", "conweave", "ns3-rdma", "cm"}
    assert all(about.strip() for about in dialects().values())


big = st.integers(1, 2**63 - 1)
host = st.integers(0, 40)
text = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8)
flow = st.tuples(host, host, big, st.integers(0, 2**63 - 1)).filter(lambda f: f[0] != f[1])


def table_of(flows: list, klass: list, ids: list, tags: list[str]) -> FlowTable:
    """A table as a reader would make it: in order of start."""
    order = sorted(range(len(flows)), key=lambda i: flows[i][3])
    names: dict[str, int] = {}
    tag = [names.setdefault(tags[i], len(names)) if tags[i] else -1 for i in order]
    column = {
        name: np.array([flows[i][k] for i in order], dtype)
        for k, (name, dtype) in enumerate(
            [("src", "i4"), ("dst", "i4"), ("size_bytes", "i8"), ("start_ps", "i8")]
        )
    }
    return FlowTable(
        **column,
        klass=np.array([klass[i] for i in order], np.int16),
        id=np.array([ids[i] for i in order], np.int64),
        tag=np.array(tag, np.int32),
        tags=list(names),
        info=FlowFileInfo("made", "made", "made", False, ""),
    )


def same(a: FlowTable, b: FlowTable) -> bool:
    names = ("src", "dst", "size_bytes", "start_ps", "klass", "id", "tag")
    return a.tags == b.tags and all((getattr(a, n) == getattr(b, n)).all() for n in names)


@given(st.data())
def test_csv_is_read_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Claim: writing and reading CSV changes nothing, whatever sizes, starts, classes and tags."""
    flows = data.draw(st.lists(flow, min_size=1, max_size=8))
    n = len(flows)
    table = table_of(
        flows,
        data.draw(st.lists(st.integers(-1, 7), min_size=n, max_size=n)),
        data.draw(st.lists(st.integers(-1, 2**63 - 1), min_size=n, max_size=n)),
        data.draw(st.lists(text, min_size=n, max_size=n)),
    )
    path = tmp_path_factory.getbasetemp() / "round.csv"
    flows_csv.write(path, table)
    assert same(read_flows(path), table)


@given(st.lists(flow, min_size=1, max_size=8), st.data(), st.sampled_from(["ps", "us"]))
def test_matrices_are_read_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, flows: list, data: st.DataObject, unit: str
) -> None:
    """K26: writing and reading a connection matrix changes nothing, in either unit."""
    n = len(flows)
    ids = data.draw(st.lists(st.sampled_from([-1, 1, 2**40]), min_size=n, max_size=n))
    table = table_of(flows, [-1] * n, ids, [""] * n)
    path = tmp_path_factory.getbasetemp() / "round.cm"
    flows_cm.write(path, table, 41, unit)
    assert same(read_flows(path, start_unit=unit), table)


def test_names_are_written_and_read_back(tmp_path: Path) -> None:
    """Claim: host names, also with commas and quotes, survive a CSV file."""
    names = ['rack 1, "a"', "#2", "plain"]
    table = table_of([(0, 1, 5, 0), (2, 0, 6, 1)], [-1, -1], [-1, -1], ["", ""])
    path = tmp_path / "named.csv"
    flows_csv.write(path, table, names)
    assert same(read_flows(path, hosts=Hosts(3, names)), table)


@pytest.mark.parametrize(
    ("klass", "ids", "tags", "n_host", "said"),
    [
        (3, -1, "", 8, "flows with classes cannot be written"),
        (-1, -1, "x", 8, "flows with tags cannot be written"),
        (-1, 0, "", 8, "id 0"),
        (-1, 1, "", 5, "hosts beyond the 5"),
    ],
)
def test_a_matrix_refuses_what_it_cannot_say(
    tmp_path: Path, klass: int, ids: int, tags: str, n_host: int, said: str
) -> None:
    """Claim: a writer never drops what its format cannot carry."""
    table = table_of([(0, 5, 9, 0)], [klass], [ids], [tags])
    with pytest.raises(EmunetError, match=said):
        flows_cm.write(tmp_path / "x.cm", table, n_host)
    assert not (tmp_path / "x.cm").exists()


def test_csv_refuses_a_tag_with_a_line_break(tmp_path: Path) -> None:
    """Claim: a line break in a tag is refused before anything is written."""
    table = table_of([(0, 5, 9, 0)], [-1], [-1], ["a\nb"])
    with pytest.raises(EmunetError, match="line break"):
        flows_csv.write(tmp_path / "x.csv", table)
    assert not (tmp_path / "x.csv").exists()
