"""The message stream: order, chunks, numbers, tags, files and errors."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunet.errors import InputFileError, ScenarioError
from emunet.scenario import Flows, Incast, Permutation, Poisson, Scenario, Star, load_scenario
from emunet.scenario import parse_scenario as parse
from emunet.topology import build
from emunet.workload import Element, Messages, WorkloadStream, stream
from emunet.workload.flows import describe_if_flows, scale_times
from emunet.workload.messages import COLUMNS, concatenate, make_messages

ROOT = Path(__file__).resolve().parents[2]
US, MS = 10**6, 10**9


def run(
    *workload: Any, n_host: int = 16, seed: int = 1, chunk: int = 65536, **more: Any
) -> WorkloadStream:
    """Stream of a workload on a star of hosts at 400 Gb/s."""
    scenario = Scenario(topology=Star(hosts=n_host), workload=list(workload), seed=seed, **more)
    return stream(scenario, build(scenario.topology), chunk=chunk)


def everything(made: WorkloadStream) -> Messages:
    return concatenate(list(made))


def equal(a: Messages, b: Messages) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in COLUMNS)


MIX = (
    Permutation(size=2_000_000, tag="perm"),
    Poisson(sizes="google_rpc", load=0.3, until=50 * US, klass=5, background=True),
    Incast(fan_in=5, size=1000, every=7 * US, until=50 * US),
    Incast(fan_in=3, receiver=2, size=1000, load=0.1, until=50 * US),
)


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_chunks_do_not_change_the_messages(chunk: int) -> None:
    """Claim of the contract of `stream`: messages and numbers are the same for any chunk size."""
    whole = everything(run(*MIX))
    parts = list(run(*MIX, chunk=chunk))
    assert equal(concatenate(parts), whole)
    assert np.concatenate([part.ids for part in parts]).tolist() == list(range(len(whole)))
    assert {len(part) for part in parts[:-1]} <= {chunk}


def test_iterating_again_gives_the_same() -> None:
    """Claim: a stream can be iterated more than once, and from any message on (resume)."""
    made = run(*MIX, chunk=50)
    whole = everything(made)
    assert equal(everything(made), whole)
    for first in (0, 1, 49, 50, 333, len(whole) - 1):
        rest = list(made.chunks(first))
        assert rest[0].first_id == first
        assert equal(concatenate(rest), whole.take(slice(first, None)))
    assert list(made.chunks(len(whole))) == []


def test_messages_are_in_order_and_have_their_types() -> None:
    """Claim: starts never fall, and columns have the types of the engine's door."""
    messages = everything(run(*MIX))
    assert (np.diff(messages.start_ps) >= 0).all()
    types = {name: getattr(messages, name).dtype.name for name in COLUMNS}
    assert types == {
        "src": "int32", "dst": "int32", "size_bytes": "int64", "start_ps": "int64",
        "klass": "uint8", "background": "bool", "tag": "int32",
    }  # fmt: skip
    assert (messages.src != messages.dst).all()
    assert messages.size_bytes.min() >= 1


def test_class_background_and_tag_belong_to_the_element() -> None:
    """Claim: each element's messages carry its class, background mark and name."""
    made = run(*MIX)
    assert made.tags == ["perm", "poisson", "incast-1", "incast-2"]
    messages = everything(made)
    for tag, klass, background in ((0, 3, False), (1, 5, True), (2, 3, False), (3, 3, False)):
        mine = messages.tag == tag
        assert mine.any()
        assert (messages.klass[mine] == klass).all()
        assert (messages.background[mine] == background).all()


def element(number: int, pieces: list[list[int]]) -> Element:
    """An element whose messages say (element, order) in `src` and `dst`."""
    starts = sorted(start for piece in pieces for start in piece)

    def blocks(rows: int):
        at = 0
        for piece in pieces:
            yield make_messages(
                src=np.full(len(piece), number), dst=np.arange(at, at + len(piece)), size_bytes=1,
                start_ps=np.array(starts[at : at + len(piece)], np.int64),
                klass=0, background=False, tag=0,
            )  # fmt: skip
            at += len(piece)

    n = len(starts)
    return Element("made", f"e{number}", blocks, n, n, n, n, n, 0)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.lists(st.integers(0, 4), max_size=5), max_size=4), max_size=4),
    st.integers(1, 9),
    st.sampled_from([None, 0, 2, 5]),
)
def test_elements_are_merged_in_the_documented_order(
    elements: list[list[list[int]]], chunk: int, until_ps: int | None
) -> None:
    """Claim of docs/workloads.md: order by start, then element, then order within the element.

    Chunks may be shorter from the end of the run on; order and numbers stay.
    """
    made = WorkloadStream(
        [element(i, pieces) for i, pieces in enumerate(elements)], chunk, until_ps=until_ps
    )
    expected = sorted(
        (start, i, k)
        for i, pieces in enumerate(elements)
        for k, start in enumerate(sorted(start for piece in pieces for start in piece))
    )
    parts = list(made)
    found = [
        (int(s), int(i), int(k))
        for part in parts
        for s, i, k in zip(part.start_ps, part.src, part.dst, strict=True)
    ]
    assert found == expected
    sizes = [len(part) for part in parts]
    assert [part.first_id for part in parts] == [sum(sizes[:i]) for i in range(len(parts))]
    before = [p for p in parts if until_ps is None or p.start_ps[-1] < until_ps]
    assert all(len(part) == chunk for part in before[:-1])
    assert made.total == len(expected)


def test_expectations_are_exact_where_the_total_is_known() -> None:
    """Claim: messages, bytes and packets are exact for permutations, regular incasts and files."""
    made = run(
        Permutation(size=10_000, until=3 * US),
        Incast(fan_in=4, receiver=0, size=4097, every=1 * US, count=9),
    )
    messages = everything(made)
    assert made.total == made.expected_messages == len(messages)
    assert made.expected_bytes == messages.size_bytes.sum()
    assert made.expected_packets == (-(-messages.size_bytes // 4096)).sum()
    assert run(*MIX).total is None


def test_an_empty_workload_is_an_empty_stream() -> None:
    """Claim: no elements, no messages; the caller decides whether that is worth a run."""
    made = run()
    assert (list(made), made.total, made.tags) == ([], 0, [])


def listed(folder: Path, text: str) -> str:
    (folder / "flows.csv").write_text(text)
    return str(folder / "flows.csv")


def test_files_keep_their_classes_and_tags_unless_told(tmp_path: Path) -> None:
    """Claim: class and tag of a line hold; a class named in the scenario beats the file's."""
    path = listed(
        tmp_path,
        "src,dst,size_bytes,start_ns,class,tag\n0,1,5,0,2,map\n0,host2,5,1,,\n2,1,5,1,7,map\n",
    )
    made = run(Flows(path=path))
    messages = everything(made)
    assert messages.klass.tolist() == [2, 3, 7]
    assert made.tags == ["flows", "flows/map"]
    assert messages.tag.tolist() == [1, 0, 1]
    assert messages.dst.tolist() == [1, 2, 1]
    forced = everything(run(Flows(path=path, klass=4, background=True)))
    assert forced.klass.tolist() == [4, 4, 4]
    assert forced.background.all()


def test_files_are_read_beside_the_scenario(tmp_path: Path) -> None:
    """Claim: relative paths begin at the scenario's folder; oddities become warnings."""
    listed(tmp_path, "src,dst,size_bytes,start_ns\n0,1,5,9\n0,2,5,1\n")
    scenario = parse("topology: {kind: star, hosts: 4}\nworkload: [flows: flows.csv]\n")
    made = stream(scenario, build(scenario.topology), tmp_path)
    assert made.warnings == [
        "flows.csv: not in order of start: 1 of 2 flows start before the one above them; "
        "sorted (equal starts keep the order of the file)"
    ]
    where = r"\[\$\.workload\[0\]\.flows\]$"
    with pytest.raises(InputFileError, match=rf"flows\.csv: does not exist.* {where}"):
        stream(scenario, build(scenario.topology), tmp_path.parent)


def test_times_are_scaled_and_moved_exactly(tmp_path: Path) -> None:
    """Claim: time_scale 1/40 is the fraction, not a float; start moves the first flow."""
    path = listed(
        tmp_path, "src,dst,size_bytes,start_ps\n0,1,5,40000000000039\n0,1,5,40000000000061\n"
    )
    assert everything(run(Flows(path=path, time_scale="1/40"))).start_ps.tolist() == [
        1_000_000_000_001,
        1_000_000_000_002,
    ]
    moved = everything(run(Flows(path=path, time_scale=2.0, start=5)))
    assert moved.start_ps.tolist() == [5, 49]


@given(
    st.lists(st.integers(0, 2**62), min_size=1, max_size=5),
    st.fractions(Fraction(1, 10**6), 2, max_denominator=10**6),
)
def test_scaling_rounds_to_the_nearest(times: list[int], scale: Fraction) -> None:
    """Claim: a scaled time is round-half-up of the exact product, and order is kept."""
    scaled = scale_times(np.array(sorted(times), np.int64), scale)
    exact = [
        (2 * t * scale.numerator + scale.denominator) // (2 * scale.denominator)
        for t in sorted(times)
    ]
    if scaled is None:
        assert max(exact) >= 2**63 - 1
    else:
        assert scaled.tolist() == exact


ERRORS = {
    "poisson: {sizes: websearhc, load: 0.3, until: 1ms}": (
        '$.workload[0].poisson.sizes: "websearhc" is neither a known distribution nor a file; '
        'did you mean "websearch"?'
    ),
    "poisson: {sizes: 5KB, load: 0.3, until: 1ms, hosts: [0, host99]}": (
        '$.workload[0].poisson.hosts[1]: "host99" is not a host; did you mean "host9"? '
        "(allowed: host numbers 0 to 15, or their names)"
    ),
    "poisson: {sizes: 5KB, load: 0.3, until: 1ms, hosts: [3, host3]}": (
        '$.workload[0].poisson.hosts[1]: "host3" names host 3 a second time; name each host once'
    ),
    "incast: {fan_in: 16, receiver: 0, size: 1MB}": (
        "$.workload[0].incast.fan_in: 16 is more than the 15 hosts that can send; a host sends "
        "once in an event: add events (every, count) or hosts (allowed: 1 to 15)"
    ),
    "incast: {fan_in: 16, size: 1MB}": (
        "$.workload[0].incast.fan_in: 16 is more than the 15 hosts that can send; a host sends "
        "once in an event: add events (every, count) or hosts (allowed: 1 to 15)"
    ),
    "incast: {fan_in: 2, receiver: 16, size: 1MB}": (
        "$.workload[0].incast.receiver: 16 is not a host "
        "(allowed: host numbers 0 to 15, or their names)"
    ),
    "incast: {fan_in: 2, receiver: 1, senders: [host1, 4, 5], size: 1MB}": (
        "$.workload[0].incast.receiver: 1 is a sender as well; leave it out of the senders"
    ),
}


@pytest.mark.parametrize(("item", "error"), ERRORS.items(), ids=range(len(ERRORS)))
def test_wrong_options_are_refused_with_path_and_place(item: str, error: str) -> None:
    """Claim: what only the topology can tell is an error with path, value, allowed and fix."""
    scenario = parse(f"topology: {{kind: star, hosts: 16}}\nworkload:\n  - {item}\n", name="s.yaml")
    with pytest.raises(ScenarioError) as caught:
        stream(scenario, build(scenario.topology))
    text = str(caught.value)
    assert text.startswith(error), text
    assert "[s.yaml:3:" in text[len(error) :]


def test_all_wrong_options_are_told_at_once() -> None:
    """Claim: errors of several elements are reported together."""
    with pytest.raises(ScenarioError) as caught:
        run(Incast(fan_in=99, size=5), Incast(fan_in=1, receiver="nobody", size=5))
    assert [error.path for error in caught.value.errors] == [
        "$.workload[0].incast.fan_in",
        "$.workload[1].incast.receiver",
    ]


def test_the_demo_is_what_its_readme_says() -> None:
    """Claim of traces/README.md: 4,372 flows and a 32:1 incast, about 10 % of the hosts' rate."""
    scenario = load_scenario(ROOT / "traces" / "demo.yaml")
    made = stream(scenario, build(scenario.topology, scenario.base_dir), scenario.base_dir)
    assert made.tags == ["websearch", "incast"]
    assert made.total == 4372 + 32
    assert made.warnings == []
    flows = made.elements[0]
    load = flows.expected_bytes * 8e12 / (648 * 400e9 * flows.span_ps)
    assert 0.1 < load < 0.105
    assert everything(made).start_ps.max() < 3 * MS


def test_the_example_runs_on_128_hosts() -> None:
    """Claim of traces/README.md: 20 flows in order, tags and all, on 128 hosts."""
    made = run(Flows(path=str(ROOT / "traces" / "example.csv")), n_host=128)
    assert made.total == 20
    assert made.warnings == []
    assert made.tags == [
        f"flows{tag}" for tag in ("", "/shuffle", "/incast", "/request", "/answer")
    ]


def test_trace_info_tells_flow_lists_from_traces(tmp_path: Path) -> None:
    """Claim: HDF5 is told by its first bytes; anything else that exists is read as a flow list."""
    listed(tmp_path, "src,dst,size_bytes,start_ns\n0,0,5,9\n0,2,5,1\n")
    found = describe_if_flows(tmp_path / "flows.csv")
    assert found is not None
    assert (found.found_count, found.self_flow_count) == (1, 1)
    (tmp_path / "run.h5").write_bytes(b"\x89HDF\r\n\x1a\n rest")
    assert describe_if_flows(tmp_path / "run.h5") is None
    assert describe_if_flows(tmp_path / "absent") is None
