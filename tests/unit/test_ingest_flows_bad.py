"""Malformed flow lists: each is refused with file, line, column, token and what is expected."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunet.errors import InputFileError
from emunet.ingest.flows_read import read_flows
from emunet.ingest.flows_table import Hosts

HOSTS = Hosts(64, [f"host{i}" for i in range(64)] + ["leaf0"])

BAD = [
    ("empty.csv", "", "empty.csv: is empty; a flow list has at least one flow"),
    (
        "header.csv",
        "src,dst,size_bytes,start_ns\n",
        "header.csv: holds no flows; an empty workload is not run",
    ),
    (
        "nohdr.csv",
        "0,1,100,0\n",
        'nohdr.csv:1:1: "0" is a number where the header is expected; begin the file with the '
        "line src,dst,size_bytes,start_ns",
    ),
    (
        "unit.csv",
        "src,dst,size,start_ns\n0,1,1,0\n",
        'unit.csv:1:9: "size" has no unit; did you mean "size_bytes"?',
    ),
    (
        "unit2.csv",
        "src,dst,size_kb,start_ns\n0,1,1,0\n",
        'unit2.csv:1:9: "size_kb" has a unit that is not accepted; did you mean "size_KB"?',
    ),
    (
        "unit3.csv",
        "src,dst,size_Kb,start_min\n",
        'unit3.csv:1:9: "size_Kb" has a unit that is not accepted; did you mean "size_KB"?',
    ),
    (
        "unk.csv",
        "src,dst,size_bytes,start_ns,clas\n0,1,1,0,3\n",
        'unk.csv:1:29: "clas" is not a column of a flow list; did you mean "class"?',
    ),
    (
        "miss.csv",
        "src,dst,size_bytes\n0,1,1\n",
        "miss.csv:1:19: the header lacks the column start_ns; the least header is "
        "src,dst,size_bytes,start_ns",
    ),
    (
        "twice.csv",
        "src,dst,size_bytes,size_KB,start_ns\n",
        'twice.csv:1:20: "size_KB" is a second column of the same kind; keep one of them',
    ),
    (
        "noname.csv",
        ",src,dst,size_bytes,start_ns\n0,0,1,5,0\n",
        "noname.csv:1:1: a column of the header has no name; columns are src, dst, size_UNIT, "
        "start_UNIT, class, id, tag",
    ),
    (
        "short.csv",
        "src,dst,size_bytes,start_ns\n0,1,100,0\n0,1,100\n",
        "short.csv:3:8: the line has 3 cells, the header has 4 columns",
    ),
    (
        "long.csv",
        "src,dst,size_bytes,start_ns\n0,1,100,0,7\n",
        'long.csv:2:11: "7" is one cell too many; the header has 4 columns',
    ),
    (
        "comma.csv",
        "src,dst,size_bytes,start_ns\n0,1,100,0,\n",
        "comma.csv:2:11: the line ends with a comma too many; the header has 4 columns",
    ),
    (
        "self.csv",
        "src,dst,size_bytes,start_ns\n3,3,100,0\n",
        'self.csv:2:3: "3" is the source as well: a flow to itself; a flow joins two different '
        "hosts; delete the line",
    ),
    (
        "zero.csv",
        "src,dst,size_bytes,start_ns\n0,1,0,0\n",
        'zero.csv:2:5: "0" is a flow of 0 bytes; a flow has at least 1 byte; delete the line or '
        "give it a size",
    ),
    (
        "host.csv",
        "src,dst,size_bytes,start_ns\n0,1,5,0\n0,99,100,0\n",
        'host.csv:3:3: "99" is not a host; hosts are 0 to 63 or names such as host0',
    ),
    (
        "name.csv",
        "src,dst,size_bytes,start_ns\nhost0,hots1,100,0\n",
        'name.csv:2:7: "hots1" is not a host; did you mean "host1"?',
    ),
    (
        "switch.csv",
        "src,dst,size_bytes,start_ns\nleaf0,host1,100,0\n",
        'switch.csv:2:1: "leaf0" is a switch, not a host; hosts are 0 to 63',
    ),
    (
        "neg.csv",
        "src,dst,size_bytes,start_ns\n0,1,100,-5\n",
        'neg.csv:2:9: "-5" is negative; a time is at least 0',
    ),
    (
        "float.csv",
        "src,dst,size_bytes,start_ns\n0,1,1500.5,0\n",
        'float.csv:2:5: "1500.5" is not a whole number of bytes; nearest: 1500 bytes',
    ),
    (
        "words.csv",
        "src,dst,size_bytes,start_ns\n0,1,abc,0\n",
        'words.csv:2:5: "abc" is not a size; digits are expected',
    ),
    (
        "unitin.csv",
        "src,dst,size_bytes,start_ns\n0,1,2MB,0\n",
        'unitin.csv:2:5: "2MB" is not a size in plain digits; did you mean "2"? the unit '
        "belongs to the column",
    ),
    ("emp.csv", "src,dst,size_bytes,start_ns\n0,1,,0\n", "emp.csv:2:5: the size is missing"),
    (
        "big.csv",
        "src,dst,size_bytes,start_ns\n0,1,9223372036854775808,0\n",
        'big.csv:2:5: "9223372036854775808" is too large for a size; the largest is '
        "9223372036854775807 bytes",
    ),
    (
        "bigt.csv",
        "src,dst,size_bytes,start_ns\n0,1,1,9223372036854776\n",
        'bigt.csv:2:7: "9223372036854776" is too large for a time; the largest is '
        "9223372036854775807 ps",
    ),
    (
        "nan.csv",
        "src,dst,size_bytes,start_ns\n0,1,nan,0\n",
        'nan.csv:2:5: "nan" is not a size; digits are expected',
    ),
    (
        "exp.csv",
        "src,dst,size_bytes,start_ns\n0,1,1e999,0\n",
        'exp.csv:2:5: "1e999" is far out of range for a size',
    ),
    (
        "class.csv",
        "src,dst,size_bytes,start_ns,class\n0,1,5,0,8\n",
        'class.csv:2:9: "8" is not a priority class; classes are 0 to 7',
    ),
    (
        "id.csv",
        "src,dst,size_bytes,start_ns,id\n0,1,5,0,x\n",
        'id.csv:2:9: "x" is not a flow id; a whole number from 0 is expected',
    ),
    (
        "quote.csv",
        'src,dst,size_bytes,start_ns\n0,"1,5,0\n',
        'quote.csv:2:3: "\\"1,5,0" has a stray double quote; inside quotes, write "" for one',
    ),
    (
        "prose.csv",
        "src,dst,size_bytes,start_ns\n0,1,5,0\nend of file, thanks\n",
        "prose.csv:3:20: the line has 2 cells, the header has 4 columns",
    ),
    ("bin.csv", "src,dst\x00size", "bin.csv:1: is not a line of text"),
    (
        "prose.txt",
        "hello world\n",
        'prose.txt:1:1: "hello world" begins no flow list that emunet reads; name the dialect '
        "if you know it: cm, csv, list, hpcc, conweave, ns3-rdma",
    ),
    (
        "few.txt",
        "3\n0 1 3 100 5000 2\n",
        'few.txt:1:1: "3" flows are declared, the file ends after 1; correct the count, or read '
        "the file with lenient: true",
    ),
    (
        "flds.txt",
        "2\n0 1 3 100 5000 2\n0 1 3 100\n",
        "flds.txt:3:10: the line has 4 of 6 words; a flow is: src dst pg dport size_bytes start_s",
    ),
    (
        "flds7.txt",
        "1\n0 1 3 100 5000 2 9\n",
        'flds7.txt:2:1: "0 1 3 100 5000 2 9" begins no flow list that emunet reads; after a '
        "count, a flow has 5 or 6 numbers",
    ),
    (
        "pg.txt",
        "1\n0 1 9 100 5000 2\n",
        'pg.txt:2:5: "9" is not a priority class; classes are 0 to 7',
    ),
    (
        "port.txt",
        "2\n0 1 3 100 5000 2\n0 1 3 70000 5000 2\n",
        'port.txt:3:7: "70000" is not a port; ports are 0 to 65535',
    ),
    (
        "amb.txt",
        "1\n2 1 3 100 2 9\n",
        'amb.txt:2: "2 1 3 100 2 9" fits two dialects: dport size start, and size start stop; '
        "say dialect: hpcc or dialect: ns3-rdma",
    ),
    (
        "count.txt",
        "2 flows\n0 1 3 100 5000 2\n",
        'count.txt:1:1: "2 flows" begins no flow list that emunet reads; name the dialect if '
        "you know it: cm, csv, list, hpcc, conweave, ns3-rdma",
    ),
    ("zero.txt", "0\n", "zero.txt: holds no flows; an empty workload is not run"),
    (
        "one.txt",
        "5\n",
        'one.txt:1:1: "5" flows are declared, the file ends after 0; correct the count, or read '
        "the file with lenient: true",
    ),
    ("neg.txt", "1\n0 1 3 100 5000 -2\n", 'neg.txt:2:16: "-2" is negative; a time is at least 0'),
    (
        "self.txt",
        "1\n0 0 3 100 5000 2\n",
        'self.txt:2:3: "0" is the source as well: a flow to itself; a flow joins two different '
        "hosts; delete the line",
    ),
    (
        "l3.htsim",
        "0 1 100 0\n0 1 100\n",
        "l3.htsim:2:8: the line ends before the start time; a flow is: src dst size_bytes start_ns",
    ),
    (
        "l5.htsim",
        "0 1 100 0\n0 1 100 0 5\n",
        'l5.htsim:2:11: "5" is a fifth word on a line of four; a flow is: src dst size_bytes '
        "start_ns",
    ),
    ("lneg.htsim", "0 1 100 -1\n", 'lneg.htsim:1:9: "-1" is negative; a time is at least 0'),
    (
        "lprose.htsim",
        "0 1 100 0\nthat is all folks\n",
        'lprose.htsim:2:1: "that" is not a host; hosts are 0 to 63 or names such as host0',
    ),
    (
        "trig.cm",
        "Nodes 16\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 5 send_done_trigger "
        "1\n1->2 id 2 trigger 1 size 5\n",
        'trig.cm:4:26: "send_done_trigger" fires a trigger: dependencies are not supported yet; '
        "give every connection a start",
    ),
    (
        "trig2.cm",
        "Nodes 16\nConnections 1\n0->1 id 1 trigger 1 size 5\n",
        'trig2.cm:3:11: "trigger" waits for a trigger: dependencies are not supported yet; give '
        "every connection a start",
    ),
    (
        "trig3.cm",
        "Nodes 16\nConnections 1\n0->1 start 0 size 4\ntrigger id 1 oneshot\n",
        'trig3.cm:4:1: "trigger" declares a trigger: dependencies are not supported yet; give '
        "every connection a start",
    ),
    (
        "fail.cm",
        "Nodes 16\nConnections 1\nfailure switch_type TOR switch_id 1 link_id 2\n",
        'fail.cm:3:1: "failure" is a link failure, which a flow list cannot carry; delete the line',
    ),
    (
        "endless.cm",
        "Nodes 16\nConnections 1\n0->1 start 0 size 0\n",
        'endless.cm:3:19: "0" is an endless flow, which never finishes; give it the bytes it '
        "sends until the end of the run",
    ),
    (
        "count.cm",
        "Nodes 16\nConnections 4\n0->1 start 0 size 5\n",
        'count.cm:2:13: "4" connections are declared, the file holds 1; correct the count, or '
        "read the file with lenient: true",
    ),
    (
        "nodes.cm",
        "Nodes 512\nConnections 1\n0->1 start 0 size 5\n",
        'nodes.cm:1:7: "512" nodes are declared, the topology has 64 hosts; choose a topology '
        "with at least as many hosts",
    ),
    (
        "node.cm",
        "Nodes 16\nConnections 1\n0->16 start 0 size 5\n",
        'node.cm:3:4: "16" is not a node of the matrix; nodes are 0 to 15',
    ),
    (
        "key.cm",
        "Nodes 16\nConnections 1\n0->1 start 0 sise 5\n",
        'key.cm:3:14: "sise" is not a word of a connection; did you mean "size"?',
    ),
    (
        "nosize.cm",
        "Nodes 16\nConnections 1\n0->1 start 0\n",
        "nosize.cm:3:13: the connection has no size; add: size BYTES",
    ),
    (
        "nostart.cm",
        "Nodes 16\nConnections 1\n0->1 size 5\n",
        "nostart.cm:3:12: the connection has no start; add: start 0",
    ),
    (
        "noval.cm",
        "Nodes 16\nConnections 1\n0->1 start 0 size\n",
        "noval.cm:3:18: the value of size is missing",
    ),
    (
        "id0.cm",
        "Nodes 16\nConnections 1\n0->1 id 0 start 0 size 5\n",
        'id0.cm:3:9: "0" is not an id; ids begin at 1',
    ),
    (
        "msg0.cm",
        "Nodes 16\nConnections 1\n0->1 id 1 msg 0 start 0 size 5\n",
        'msg0.cm:3:15: "0" is not a message number; messages begin at 1; msg alone numbers itself',
    ),
    (
        "dbl.cm",
        "Nodes 16\nConnections 1\n0->1 start 0 start 1 size 5\n",
        'dbl.cm:3:14: "start" is given twice on one line; keep one of them',
    ),
    (
        "nohead.cm",
        "0->1 start 0 size 5\n",
        'nohead.cm:1:1: "0->1" comes before the line Nodes; a matrix begins with Nodes and '
        "Connections",
    ),
    (
        "nonodes.cm",
        "Connections 1\n",
        "nonodes.cm: has no line Nodes; a matrix begins with Nodes and Connections",
    ),
    (
        "arrow.cm",
        "Nodes 16\nConnections 1\n0 -> 1 start 0 size 5\n",
        'arrow.cm:3:1: "0" begins no line of a connection matrix; a connection is: src->dst id '
        "n start t size B",
    ),
    (
        "self.cm",
        "Nodes 16\nConnections 1\n5->5 start 0 size 5\n",
        'self.cm:3:1: "5->5" is the source as well: a flow to itself; a flow joins two '
        "different hosts; delete the line",
    ),
    ("hdr2.cm", "Nodes 16\nNodes 16\n", 'hdr2.cm:2:1: "Nodes" is declared twice; first on line 1'),
    ("hdr3.cm", "Nodes\n", "hdr3.cm:1:6: the count of Nodes is missing"),
    ("hdr4.cm", "Nodes 16 hosts\n", 'hdr4.cm:1:10: "hosts" follows the count of Nodes'),
    (
        "neg.cm",
        "Nodes 16\nConnections 1\n0->1 start -4 size 5\n",
        'neg.cm:3:12: "-4" is negative; a time is at least 0',
    ),
    (
        "fsz.cm",
        "Nodes 16\nConnections 1\n0->1 start 0 size 5.5\n",
        'fsz.cm:3:19: "5.5" is not a whole number of bytes; nearest: 6 bytes',
    ),
    (
        "conn.cm",
        "Nodes 16\nConnections 1\nConections 4\n",
        'conn.cm:3:1: "Conections" begins no line of a connection matrix; did you mean '
        '"Connections"?',
    ),
    (
        "many_digits.csv",
        "src,dst,size_bytes,start_ns\n0,1,99999999999999999999999999999999999999999999999999,0\n",
        'many_digits.csv:2:5: "99999999999999999999999999999999999999999999999999" is not a '
        "size; digits are expected",
    ),
]
"""Name of the file, its text, the error."""


@pytest.mark.parametrize(("name", "text", "error"), BAD, ids=[name for name, _, _ in BAD])
def test_a_malformed_list_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, error: str
) -> None:
    """Claim of docs/workloads.md: one line says where, what, what is wrong and what to write."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(text.encode())
    with pytest.raises(InputFileError) as caught:
        read_flows(name, hosts=HOSTS)
    assert str(caught.value) == error
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


UNREADABLE = {
    "UTF-16": ("src,dst".encode("utf-16"), "bad.csv: is UTF-16 text; save it as UTF-8"),
    "binary": (
        b"\x89HDF\r\n\x1a\n\0\0",
        "bad.csv:1:1: the byte 0x89 is not UTF-8 text; save the file as UTF-8",
    ),
    "one endless line": (b"0,1," * 40_000, "bad.csv:1: is not a line of text"),
}


@pytest.mark.parametrize(("data", "error"), UNREADABLE.values(), ids=list(UNREADABLE))
def test_what_is_not_text_is_refused(tmp_path: Path, data: bytes, error: str) -> None:
    """Claim: binary data, other encodings and endless lines are errors, not tracebacks."""
    (tmp_path / "bad.csv").write_bytes(data)
    with pytest.raises(InputFileError) as caught:
        read_flows(tmp_path / "bad.csv", name="bad.csv")
    assert str(caught.value) == error


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    """Claim: a compressed file that was cut or altered is an error that says so."""
    whole = gzip.compress("".join(f"{i} {i + 1} 5 {i}\n" for i in range(40)).encode())
    for data in (whole[:-20], whole[:60] + b"\xff" * 20 + whole[80:]):
        (tmp_path / "flows.gz").write_bytes(data)
        with pytest.raises(InputFileError, match=r"flows\.gz:\d+: the compressed file is damaged"):
            read_flows(tmp_path / "flows.gz")


def test_a_missing_file_comes_with_the_nearest_name(tmp_path: Path) -> None:
    """Claim: a misspelt file name is answered with the file that was probably meant."""
    (tmp_path / "example.csv").write_text("x")
    with pytest.raises(InputFileError) as caught:
        read_flows(tmp_path / "exmaple.csv", name="exmaple.csv")
    assert str(caught.value) == 'exmaple.csv: does not exist; did you mean "example.csv"?'
    with pytest.raises(InputFileError, match="there is no directory"):
        read_flows(tmp_path / "no" / "flows.csv")
    with pytest.raises(InputFileError, match="is a directory"):
        read_flows(tmp_path)


def test_dialects_and_units_are_checked_by_name(tmp_path: Path) -> None:
    """Claim: a dialect or unit that does not exist is refused with those that do."""
    path = tmp_path / "flows.txt"
    path.write_text("0 1 5 0\n")
    with pytest.raises(InputFileError, match=r'not a dialect; did you mean "hpcc"'):
        read_flows(path, dialect="hpc")
    with pytest.raises(InputFileError, match='dialect list cannot be in "min"; units: ns, ps, us'):
        read_flows(path, start_unit="min")
    path.write_text("src,dst,size_bytes,start_ns\n0,1,5,0\n")
    with pytest.raises(InputFileError, match="its header says the unit"):
        read_flows(path, start_unit="us")


VALID = (
    'src,dst,size_KB,start_us,class,tag\n0,1,1.5,0,3,a\nhost2,3,1e3,7.25,,"b, c" # x\n',
    "0 1 1500 0\n2\t3  1 1500\n",
    "2\n0 1 3 100 1500 0\n2 3 3 100 1 0.0000015\ntrailing words\n",
    "1\n0 1 3 10000000 2.0 9.5\n",
    "Nodes 64\nConnections 2\n0->1 id 1 start 0 size 1500\n2->3 start 1.5 size 1 msg prio 1\n",
)
SIGNS = st.sampled_from(
    list('0159,.#"\n\r\t ->+-eE_xX\ufeff\0') + ["9" * 30, "\u0663", "nan", "1e9"]
)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(VALID),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 3), SIGNS), min_size=1, max_size=4),
    st.booleans(),
)
def test_damaged_lists_never_end_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory,
    text: str,
    edits: list[tuple[int, int, str]],
    survey: bool,
) -> None:
    """Claim: whatever is cut out of a list or put into it, it is read or refused with one line."""
    for at, cut, sign in edits:
        text = text[:at] + sign + text[at + cut :]
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(text.encode())
    try:
        table = read_flows(path, hosts=HOSTS, survey=survey)
    except InputFileError as error:
        assert "\n" not in str(error)
        return
    assert (table.src != table.dst).all()
    assert (np.diff(table.start_ps) >= 0).all()
    assert ((table.src >= 0) & (table.src < 64) & (table.dst >= 0) & (table.dst < 64)).all()
    assert (table.size_bytes > 0).all()
