"""Topology files of the HPCC/ns-3 family: every dialect, what is tolerated, what is refused and
where, and the way back.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunet.errors import InputFileError, ScenarioError
from emunet.ingest.flows_read import read_flows
from emunet.ingest.flows_table import Hosts
from emunet.ingest.topology_ns3 import DIALECTS, write
from emunet.ingest.topology_table import TopologyTable, read_topology, readers
from emunet.topology import build
from emunet.topology.explicit import Cable, explicit
from emunet.topology.from_file import from_table, to_table
from emunet.topology.star import star

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

HPCC = """5 2 4
0 4
1 0 100Gbps 1us 0
2 0 25Gbps 0.001ms 0.000000
3 4 100Gbps 1000ns 0
0 4 400Gbps 0.0000015 0
"""
"""Switches 0 and 4, hosts 1, 2, 3; delays in four spellings."""


def read(tmp_path: Path, text: str | bytes, dialect: str = "auto") -> TopologyTable:
    path = tmp_path / "topology.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_topology(path, dialect, "topology.txt")


def refusal(tmp_path: Path, text: str | bytes, dialect: str = "auto") -> str:
    with pytest.raises(InputFileError) as caught:
        read(tmp_path, text, dialect)
    assert caught.value.exit_code == 3
    return str(caught.value)


def test_the_common_dialect(tmp_path: Path) -> None:
    """Grammar of HPCC's topology.txt: counts, switch numbers, links; bare delays are seconds."""
    table = read(tmp_path, HPCC)
    assert table.dialect == "hpcc"
    assert table.switch_ids == [0, 4]
    assert table.host_ids == [1, 2, 3]
    assert list(zip(table.cable_a, table.cable_b, strict=True)) == [(1, 0), (2, 0), (3, 4), (0, 4)]
    assert table.rate_bps.tolist() == [100 * 10**9, 25 * 10**9, 100 * 10**9, 400 * 10**9]
    assert table.delay_ps.tolist() == [10**6, 10**6, 10**6, 1_500_000]
    assert table.warnings == []


def test_hosts_are_renumbered_and_keep_their_names(tmp_path: Path) -> None:
    """Rule: hosts come first, by ascending number in the file; a node's name is that number."""
    t = from_table(read(tmp_path, HPCC), "topology.txt")
    assert (t.n_host, t.n_switch) == (3, 2)
    assert t.names == ["1", "2", "3", "0", "4"]
    assert t.host_number == {"1": 0, "2": 1, "3": 2}
    assert t.cable_a.tolist() == [0, 1, 2, 3]
    assert t.cable_b.tolist() == [3, 3, 4, 4]
    assert t.tier.tolist() == [0, 0, 0, 1, 1]


def test_flow_lists_speak_of_the_numbers_in_the_topology_file(tmp_path: Path) -> None:
    """Both files of a pair number the same nodes: flow 1 -> 3 joins hosts 0 and 2, node 0 is a
    switch.
    """
    t = from_table(read(tmp_path, HPCC))
    flows = tmp_path / "flow.txt"
    flows.write_text("1\n1 3 3 100 1000 2.0\n")
    table = read_flows(flows, hosts=Hosts(t.n_host, t.names))
    assert (table.src.tolist(), table.dst.tolist()) == ([0], [2])
    flows.write_text("1\n0 3 3 100 1000 2.0\n")
    with pytest.raises(InputFileError, match='"0" is a switch, not a host'):
        read_flows(flows, hosts=Hosts(t.n_host, t.names), name="flow.txt")


def test_the_ns3_datacenter_dialect(tmp_path: Path) -> None:
    """Grammar: a ToR count in the first line, rates as bare bit/s with decimals."""
    table = read(tmp_path, "3 1 1 2\n2\n0 2 25000000000.0 1us 0\n1 2 25000000000.0 1us 0\n")
    assert table.dialect == "ns3-datacenter"
    assert table.rate_bps.tolist() == [25 * 10**9] * 2
    assert table.header["tor_num"] == "1"


def test_the_reverie_dialect(tmp_path: Path) -> None:
    """Grammar: six numbers in the first line, the last two are rates that the links repeat."""
    table = read(
        tmp_path, "3 1 1 2 25000000000 100000000000\n2\n0 2 25000000000 1us 0\n1 2 1e11 1us 0\n"
    )
    assert table.dialect == "reverie"
    assert table.rate_bps.tolist() == [25 * 10**9, 100 * 10**9]


def test_the_simai_dialect(tmp_path: Path) -> None:
    """Grammar: NVSwitch numbers come before switch numbers; a GPU type ends the first line."""
    text = "6 2 2 1 7 H100\n3 4 5\n0 3 2880Gbps 0.000025ms 0\n"
    text += "1 3 2880Gbps 0.000025ms 0\n2 4 2880Gbps 0.000025ms 0\n"
    text += "0 5 400Gbps 0.0005ms 0\n1 5 400Gbps 0.0005ms 0\n"
    text += "2 5 400Gbps 0.0005ms 0\n3 4 400Gbps 0.0005ms 0\n"
    table = read(tmp_path, text)
    assert table.dialect == "simai"
    assert table.switch_ids == [3, 4, 5]
    assert table.host_ids == [0, 1, 2]
    assert table.delay_ps.tolist() == [25_000] * 3 + [500_000] * 4
    assert table.warnings == ["3 GPUs do not fill servers of 2"]


def test_switch_numbers_may_take_several_lines(tmp_path: Path) -> None:
    """The programs that read these files split at blanks of any kind."""
    assert read(tmp_path, HPCC.replace("0 4\n1", "0\n4\n1", 1)).switch_ids == [0, 4]


def test_text_after_the_links_is_counted_and_ignored(tmp_path: Path) -> None:
    """HPCC's own samples explain themselves in prose after the counted links; the counts win."""
    text = HPCC + "\nFirst line: total node #, switch node #, link #\n0 1 100Gbps 1us 0\n"
    table = read(tmp_path, text)
    assert len(table.cable_a) == 4
    assert table.warnings == ["15 extra words after the 4 declared links ignored"]


@pytest.mark.parametrize(
    "text",
    [
        HPCC.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + HPCC.encode(),
        HPCC.rstrip("\n").encode(),
        HPCC.replace(" ", "\t  ").encode(),
        HPCC.replace("\n", "\n\n").encode(),
        gzip.compress(HPCC.encode()),
    ],
    ids=["crlf", "bom", "no last newline", "tabs", "blank lines", "gzip"],
)
def test_files_as_people_have_them(tmp_path: Path, text: bytes) -> None:
    """Rule of the readers: line ends, marks, blanks and compression make no difference."""
    assert read(tmp_path, text).delay_ps.tolist() == read(tmp_path, HPCC).delay_ps.tolist()


def test_parallel_links_are_kept(tmp_path: Path) -> None:
    """Two lines for one pair are two links (HPCC keeps the last of them); a note says so."""
    table = read(
        tmp_path, HPCC.replace("5 2 4", "5 2 6") + "4 0 400Gbps 1us 0\n0 4 400Gbps 1us 0\n"
    )
    assert len(table.cable_a) == 6
    assert "1 pairs of nodes have several links" in table.warnings[0]


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100Gbps", 10**11),
        ("2880Gbps", 2880 * 10**9),
        ("100Gb/s", 10**11),
        ("12.5GBps", 10**11),
        ("12.5GB/s", 10**11),
        ("5Mb/s", 5 * 10**6),
        ("1000kbps", 10**6),
        ("25000000000.0", 25 * 10**9),
        ("1Gib/s", 2**30),
    ],
)
def test_rates_are_those_of_ns3(tmp_path: Path, text: str, rate: int) -> None:
    """Units of ns-3's DataRate: b for bits, B for bytes, both with SI and IEC prefixes; bare is
    bit/s.
    """
    assert read(tmp_path, f"2 1 1\n1\n0 1 {text} 1us 0\n").rate_bps.tolist() == [rate]


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("1us", 10**6),
        ("0.001ms", 10**6),
        ("1000ns", 10**6),
        ("0.000001", 10**6),
        ("0", 0),
        ("1e-6s", 10**6),
        ("7ps", 7),
    ],
)
def test_delays_are_those_of_ns3(tmp_path: Path, text: str, delay: int) -> None:
    """Units of ns-3's Time; a bare number is seconds. Decimals are exact."""
    assert read(tmp_path, f"2 1 1\n1\n0 1 1Gbps {text} 0\n").delay_ps.tolist() == [delay]


BAD: dict[str, tuple[str, str]] = {
    "empty file": ("", "topology.txt: is empty"),
    "blank file": ("\n  \n", "topology.txt: is empty"),
    "no counts": ("hello world\n", 'topology.txt:1:1: "hello world" begins no known topology file'),
    "two counts": ("3 1\n2\n", 'topology.txt:1:1: "3 1" begins no known topology file'),
    "count with a point": (
        "3.5 1 2\n2\n",
        'topology.txt:1:1: "3.5" is not a whole number (node_num)',
    ),
    "huge count": (
        "99999999999 1 2\n2\n",
        'topology.txt:1:1: "99999999999" is too large for node_num',
    ),
    "no host": (
        "2 2 1\n0 1\n0 1 1Gbps 1us 0\n",
        'topology.txt:1:1: "2" nodes, 2 of them switches, leave no host',
    ),
    "more ToRs than switches": (
        "3 1 2 1\n2\n",
        'topology.txt:1:5: "2" ToRs are more than the 1 switches',
    ),
    "switch number out of range": (
        "3 1 1\n3\n",
        'topology.txt:2:1: "3" is not one of the 3 nodes; nodes are 0 to 2',
    ),
    "switch number is a word": ("3 1 1\nx\n", 'topology.txt:2:1: "x" is not a node number'),
    "negative switch number": ("3 1 1\n-1\n", 'topology.txt:2:1: "-1" is not a node number'),
    "switch listed twice": (
        "4 2 1\n3 3\n",
        'topology.txt:2:3: "3" is listed as a switch twice (line 2)',
    ),
    "too many switch numbers": (
        "4 1 1\n2 3\n",
        'topology.txt:2:3: "3" follows the last of the 1 declared switch',
    ),
    "no switch line": (
        "4 1 1\n0 3 1Gbps 1us 0\n",
        'topology.txt:2:3: "3" follows the last of the 1 declared switch',
    ),
    "file ends in the switches": (
        "4 2 1\n3\n",
        'topology.txt:1:3: "2" makes 2 switch numbers, the file ends after 1',
    ),
    "too few links": (
        "3 1 2\n2\n0 2 1Gbps 1us 0\n",
        'topology.txt:1:5: "2" links are declared, the file ends after 1',
    ),
    "short link": (
        "3 1 1\n2\n0 2 1Gbps 1us\n",
        'topology.txt:3:11: "1us" ends a line of 4 words; a link is: src dst',
    ),
    "long link": (
        "3 1 1\n2\n0 2 1Gbps 1us 0 7\n",
        'topology.txt:3:17: "7" is one word more than the 5 of a link',
    ),
    "end out of range": (
        "3 1 1\n2\n0 5 1Gbps 1us 0\n",
        'topology.txt:3:3: "5" is not one of the 3 nodes',
    ),
    "end is a word": (
        "3 1 1\n2\nhost0 2 1Gbps 1us 0\n",
        'topology.txt:3:1: "host0" is not a node number',
    ),
    "end with a point": (
        "3 1 1\n2\n0.0 2 1Gbps 1us 0\n",
        'topology.txt:3:1: "0.0" is not a node number',
    ),
    "self link": (
        "3 1 1\n2\n2 2 1Gbps 1us 0\n",
        'topology.txt:3:3: "2" is at both ends of the link',
    ),
    "unknown rate unit": (
        "3 1 1\n2\n0 2 100Gpbs 1us 0\n",
        'topology.txt:3:5: "100Gpbs" has the unit "Gpbs", which is not one of a rate; '
        'did you mean "Gbps"?',
    ),
    "rate is a word": (
        "3 1 1\n2\n0 2 fast 1us 0\n",
        'topology.txt:3:5: "fast" is not a rate; a rate is "100Gbps"',
    ),
    "negative rate": ("3 1 1\n2\n0 2 -1Gbps 1us 0\n", 'topology.txt:3:5: "-1Gbps" is negative'),
    "rate 0": ("3 1 1\n2\n0 2 0Gbps 1us 0\n", 'topology.txt:3:5: "0Gbps" is no rate for a link'),
    "rate below 1 bit/s": (
        "3 1 1\n2\n0 2 0.5 1us 0\n",
        'topology.txt:3:5: "0.5" is not a whole number of bit/s',
    ),
    "rate beyond 64 bits": (
        "3 1 1\n2\n0 2 1e30 1us 0\n",
        'topology.txt:3:5: "1e30" is too large for a rate',
    ),
    "rate below the engine's": (
        "3 1 1\n2\n0 2 1bps 1us 0\n",
        'topology.txt:3:5: "1bps" is too small for a rate; 1Mbps to 1000Tbps are possible',
    ),
    "rate beyond doubles": (
        "3 1 1\n2\n0 2 1e400bps 1us 0\n",
        'topology.txt:3:5: "1e400bps" is ',
    ),
    "delay beyond the longest": (
        "3 1 1\n2\n0 2 1Gbps 1000.1s 0\n",
        'topology.txt:3:11: "1000.1s" is too large for a delay; 0ps to 1000s are possible',
    ),
    "long token": (
        f"3 1 1\n2\n0 2 1{'x' * 999} 1us 0\n",
        f'topology.txt:3:5: "1{"x" * 57}\u2026 has the unit "{"x" * 38}\u2026, which is not',
    ),
    "not a number": ("3 1 1\n2\n0 2 nan 1us 0\n", 'topology.txt:3:5: "nan" is not a rate'),
    "unknown delay unit": (
        "3 1 1\n2\n0 2 1Gbps 1usec 0\n",
        'topology.txt:3:11: "1usec" has the unit "usec", which is not one of a delay; did you mean',
    ),
    "rate and delay swapped": (
        "3 1 1\n2\n0 2 1us 1Gbps 0\n",
        'topology.txt:3:5: "1us" has the unit "us", which is not',
    ),
    "delay below 1 ps": (
        "3 1 1\n2\n0 2 1Gbps 0.1ps 0\n",
        'topology.txt:3:11: "0.1ps" is not a whole number of ps',
    ),
    "negative delay": ("3 1 1\n2\n0 2 1Gbps -1us 0\n", 'topology.txt:3:11: "-1us" is negative'),
    "lossy link": (
        "3 1 1\n2\n0 2 1Gbps 1us 0.01\n",
        'topology.txt:3:15: "0.01" is an error rate: links that lose packets are not '
        "modelled; write 0",
    ),
    "error rate is a word": (
        "3 1 1\n2\n0 2 1Gbps 1us none\n",
        'topology.txt:3:15: "none" is not an error rate',
    ),
    "binary": ("3 1 1\n\0\0\n", "topology.txt:2: is not a line of text"),
}


@pytest.mark.parametrize("case", BAD)
def test_malformed_files(tmp_path: Path, case: str) -> None:
    """Rule of the readers: file, line, column, token, what was expected; never a traceback."""
    text, expected = BAD[case]
    assert refusal(tmp_path, text).startswith(expected)


def test_a_dialect_that_does_not_fit(tmp_path: Path) -> None:
    """A dialect that is asked for is checked against the first line."""
    assert refusal(tmp_path, HPCC, "simai") == (
        'topology.txt:1:5: "4" ends a first line of 3 words; simai has 6; the first line is: '
        "node_num gpus_per_server nvswitch_num switch_num link_num gpu_type"
    )


def test_an_unknown_dialect(tmp_path: Path) -> None:
    """Unknown names get the nearest valid one."""
    assert refusal(tmp_path, HPCC, "hpc") == (
        'topology.txt: cannot be read as "hpc", which is no dialect; did you mean "hpcc"?'
    )


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    """The nearest file of the folder is offered."""
    (tmp_path / "topology.txt").write_text(HPCC)
    with pytest.raises(InputFileError) as caught:
        read_topology(tmp_path / "topolgy.txt", name="topolgy.txt")
    assert str(caught.value) == 'topolgy.txt: does not exist; did you mean "topology.txt"?'


def test_every_dialect_is_offered() -> None:
    """A reader is found by its file; these are the dialects known today."""
    assert set(DIALECTS) <= set(readers())


def test_build_finds_files_beside_the_scenario(tmp_path: Path) -> None:
    """Rule: relative names are seen from the scenario's folder; warnings go with the topology."""
    from emunet.scenario.topology import TopologyFile

    (tmp_path / "net.txt").write_text(HPCC + "the end\n")
    t = build(TopologyFile(path="net.txt"), tmp_path)
    assert (t.kind, t.source, t.n_host) == ("file", "net.txt", 3)
    assert t.warnings == ("2 extra words after the 4 declared links ignored",)


@st.composite
def tables(draw: st.DrawFn) -> TopologyTable:
    """Any table that the dialect can say."""
    n_node = draw(st.integers(2, 12))
    switches = draw(st.lists(st.integers(0, n_node - 1), unique=True, max_size=n_node - 1))
    end = st.integers(0, n_node - 1)
    pairs = draw(
        st.lists(
            st.tuples(end, end).filter(lambda p: p[0] != p[1]),
            unique_by=lambda p: frozenset(p),
            max_size=20,
        )
    )
    n = len(pairs)
    rates = draw(st.lists(st.integers(10**6, 10**15), min_size=n, max_size=n))
    delays = draw(st.lists(st.integers(0, 10**15), min_size=n, max_size=n))
    ends = np.array(pairs, np.int32).reshape(-1, 2)
    return TopologyTable(
        "hpcc",
        "drawn",
        n_node,
        switches,
        ends[:, 0],
        ends[:, 1],
        np.array(rates, np.int64),
        np.array(delays, np.int64),
    )


@settings(max_examples=80, deadline=None)
@given(table=tables())
def test_written_files_read_back(
    tmp_path_factory: pytest.TempPathFactory, table: TopologyTable
) -> None:
    """Property: what the writer writes, the reader reads, bit for bit."""
    again = read(tmp_path_factory.mktemp("round"), write(table))
    assert (again.n_node, again.switch_ids) == (table.n_node, table.switch_ids)
    for name in ("cable_a", "cable_b", "rate_bps", "delay_ps"):
        np.testing.assert_array_equal(getattr(again, name), getattr(table, name))
    assert again.warnings == []


def test_a_topology_survives_the_round_trip(tmp_path: Path) -> None:
    """Property: topology to file to topology gives the same graph with the same names."""
    t = from_table(read(tmp_path, HPCC))
    again = from_table(read(tmp_path, write(to_table(t))))
    assert again.names == t.names
    for name in ("cable_a", "cable_b", "cable_rate_ab_bps", "cable_delay_ps", "port_peer"):
        np.testing.assert_array_equal(getattr(again, name), getattr(t, name))
    written = from_table(read(tmp_path, write(to_table(star(3, 10**9, 5)))))
    assert written.names == ["0", "1", "2", "3"]


def test_what_the_dialect_cannot_say_is_refused() -> None:
    """Parallel links and two rates have no spelling in the dialect; the writer names the nodes."""
    cable = Cable("a", "b", 10**9, 1)
    with pytest.raises(ScenarioError, match="nodes 0 and 1 have several links"):
        write(to_table(explicit("ab", [], [cable, cable])))
    with pytest.raises(ScenarioError, match='the link of "a" and "b" has two rates'):
        to_table(explicit("ab", [], [cable._replace(rate_back_bps=5)]))


def test_arrays_of_a_table_keep_their_types(tmp_path: Path) -> None:
    """A file without links is a table of empty columns."""
    table = read(tmp_path, "2 1 0\n1\n")
    assert [len(getattr(table, n)) for n in ("cable_a", "cable_b", "rate_bps", "delay_ps")] == [
        0
    ] * 4
    assert from_table(replace(table)).n_port == 0


@pytest.mark.skipif(not DATA.is_dir(), reason="the folder of public samples is not here")
def test_no_public_flow_file_is_taken_for_a_topology() -> None:
    """Flow matrices and other simulators' topologies begin otherwise and are refused with the known
    grammars.
    """
    samples = sorted(DATA.glob("**/*.topo"))[:5] + sorted(DATA.glob("**/*.topology"))[:5]
    for path in samples:
        with pytest.raises(InputFileError):
            read_topology(path)
