"""``emunet trace``, ``topo``, ``verify``, ``info`` and ``schema``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import pytest


@pytest.fixture
def trace(emunet: Callable, permutation: Path, tmp_path: Path) -> Path:
    """The trace of a small run with queue samples."""
    out = tmp_path / "run.h5"
    answer = emunet("run", permutation, "-q", "-o", out, "--set", "record.queues={every: 1us}")
    assert answer.code == 0
    return out


def test_trace_info_head_and_tables(emunet: Callable, trace: Path) -> None:
    """Claim: the built-in viewer shows how a run ended, its rows, and what each column means."""
    info = emunet("trace", "info", trace, "--json").json
    assert info["complete"] is True
    assert info["rows"]["flows"] == 16
    head = emunet("trace", "head", trace, "flows", "-n", "3", "--json").json
    assert len(head["rows"]) == 3
    assert head["rows"][0]["size_bytes"] == 200_000
    tables = emunet("trace", "tables", trace, "--json").json
    units = {column["name"]: column["unit"] for column in tables["flows"]["columns"]}
    assert units["fct_rx_ps"] == "ps"
    for words in (["info", trace], ["head", trace], ["tables", trace]):
        assert emunet("trace", *words).code == 0


def test_a_file_that_is_no_trace_is_code_3(emunet: Callable, write: Callable) -> None:
    """Claim: something else than a trace is an input error that names the file."""
    answer = emunet("trace", "info", write("notes.txt", "hello"))
    assert answer.code == 3
    assert "notes.txt" in answer.err


def test_verify_accepts_its_own_runs(emunet: Callable, trace: Path) -> None:
    """Claim: running a trace's scenario again gives its digest."""
    answer = emunet("verify", trace, "--json")
    assert answer.code == 0
    assert answer.json["digest"] == answer.json["digest_again"]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (("totals", "delivered_packets"), "packets sent"),
        (("totals", "packet_hops"), "packet_hops"),
        (("totals", "flows_delivered"), "flows_delivered"),
        (("", "digest"), "the results differ"),
    ],
)
def test_verify_finds_what_does_not_add_up(
    emunet: Callable, trace: Path, place: tuple[str, str], said: str
) -> None:
    """Claim: a trace whose books do not balance, or whose results are not those of its scenario, is
    exit code 5. Each case changes one number of a good file."""
    group, name = place
    with h5py.File(trace, "r+") as file:
        attributes = file[group or "/"].attrs
        old = attributes[name]
        attributes[name] = "0" * 32 if isinstance(old, str) else old + 1
    answer = emunet("verify", trace, "--json")
    assert answer.code == 5
    assert any(said in problem for problem in answer.json["problems"])


def test_topo_show_counts_a_fat_tree(emunet: Callable) -> None:
    """Claim by construction (Al-Fares et al., SIGCOMM 2008): a fat-tree of k = 4 has k^3/4 = 16
    hosts, 5 k^2/4 = 20 switches, 3 k^3/4 = 48 links and no oversubscription."""
    facts = emunet("topo", "show", "fat_tree,k=4", "--json").json
    assert (facts["hosts"], facts["switches"], facts["links"]) == (16, 20, 48)
    assert facts["diameter_hops"] == 6
    assert [t["ratio"] for t in facts["oversubscription"]] == [1.0, 1.0, None]
    assert emunet("topo", "show", "fat_tree,k=4").code == 0


def test_topo_show_takes_a_scenario(emunet: Callable, permutation: Path) -> None:
    """Claim: a scenario's topology can be looked at without running it."""
    facts = emunet("topo", "show", permutation, "--json", "--set", "topology.k=6").json
    assert facts["hosts"] == 6**3 // 4


def test_a_topology_that_does_not_exist_is_code_2(emunet: Callable) -> None:
    """Claim: neither a kind nor a file is a usage error that lists the kinds."""
    answer = emunet("topo", "show", "hypercube,n=3")
    assert answer.code == 2
    assert "fat_tree" in answer.err


def test_info_names_the_build(emunet: Callable) -> None:
    """Claim: ``emunet info`` tells the build type, the compiler, and the versions of Numba and
    HDF5."""
    facts = emunet("info", "--json").json
    assert facts["build_type"] in ("release", "checked")
    for key in ("compiler", "flags", "numba", "hdf5", "cpus"):
        assert facts[key]


def test_schema_is_a_json_schema_of_scenarios(emunet: Callable) -> None:
    """Claim: ``emunet schema`` is one JSON object with the keys of a scenario."""
    schema = emunet("schema").json
    assert {"topology", "switch", "transport", "workload"} <= set(schema["properties"])


def test_a_table_that_does_not_exist_is_code_2(emunet: Callable, trace: Path) -> None:
    """Claim: asking for what a trace does not have is a usage error, with what it has."""
    answer = emunet("trace", "head", trace, "nosuch")
    assert answer.code == 2
    assert "flows" in answer.err
