"""Malformed scenarios: each gives its located error, none a traceback, as docs/scenario.md says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunet.errors import EmunetError, ScenarioError, ScenarioErrors
from emunet.scenario import load_scenario, parse_scenario

STAR = "topology: {kind: star, hosts: 4}\n"

TOPOLOGY = [
    (
        "topology: {kind: star, hosts: 4, rate: 400}",
        "$.topology.rate",
        'has no unit; did you mean "400Gbps"?',
    ),
    ("topology: {kind: star, hosts: 4, rate: 400G}", "$.topology.rate", 'did you mean "400Gbps"?'),
    ("topology: {kind: star, hosts: 4, rate: 400Gb}", "$.topology.rate", 'did you mean "400Gbps"?'),
    ("topology: {kind: star, hosts: 4, rate: 50GBps}", "$.topology.rate", '"50GB/s" or "50Gbps"'),
    ("topology: {kind: star, hosts: 4, rate: 0Gbps}", "$.topology.rate", "is too small"),
    ("topology: {kind: star, hosts: 4, rate: -1Gbps}", "$.topology.rate", "is negative"),
    (
        "topology: {kind: star, hosts: 4, rate: fast}",
        "$.topology.rate",
        "does not begin with a number",
    ),
    ("topology: {kind: star, hosts: 4, delay: 1}", "$.topology.delay", 'did you mean "1us"?'),
    ("topology: {kind: star, hosts: 4, delay: 1m}", "$.topology.delay", '"1ms" or "1us"'),
    ("topology: {kind: star, hosts: 0}", "$.topology.hosts", "is too small"),
    ("topology: {kind: star, hosts: four}", "$.topology.hosts", "is not a whole number"),
    ("topology: {kind: star, hosts: 4.0}", "$.topology.hosts", "write 4"),
    ("topology: {kind: star}", "$.topology.hosts", 'is missing; add "hosts"'),
    ("topology: {hosts: 4}", "$.topology.kind", "is missing"),
    ("topology: {kind: stat, hosts: 4}", "$.topology.kind", 'did you mean "star"?'),
    ("topology: {kind: [star], hosts: 4}", "$.topology.kind", "is not a topology"),
    ("topology: leaf.txt", "$.topology", "write {kind: file"),
    ("topology:", "$.topology", "null is not a mapping"),
    ("topology: {kind: fat_tree, k: 7}", "$.topology.k", "is odd; write 8"),
    (
        "topology: {kind: fat_tree, k: 4, oversubscription: 2}",
        "$.topology.oversubscription",
        "has no such key",
    ),
    (
        "topology: {kind: fat_tree, k: 4, tier_rates: [1Gbps]}",
        "$.topology.tier_rates",
        "has 1 entries",
    ),
    (
        "topology: {kind: fat_tree, k: 4, tier_rates: [1Gbps, 2, 3Gbps]}",
        "$.topology.tier_rates[1]",
        "has no unit",
    ),
    (
        "topology: {kind: leaf_spine, leaves: 65536, spines: 1, hosts_per_leaf: 65536}",
        "$.topology",
        "4294967296 hosts",
    ),
    (
        "topology: {kind: explicit, hosts: 2, links: [{a: 0, b: 0}]}",
        "$.topology.links[0].b",
        "both ends",
    ),
    (
        "topology: {kind: explicit, hosts: 2, links: [{a: 0, b: host0}]}",
        "$.topology.links[0].b",
        "both ends",
    ),
    (
        "topology: {kind: explicit, hosts: 2, links: [{a: 0, b: 2}]}",
        "$.topology.links[0].b",
        "2 is not a node",
    ),
    (
        "topology: {kind: explicit, hosts: [tor, nic], links: [{a: tor, b: nicc}]}",
        "$.topology.links[0].b",
        'did you mean "nic"?',
    ),
    (
        "topology: {kind: explicit, hosts: [a, a], links: []}",
        "$.topology.hosts[1]",
        "is entry [0] too",
    ),
    (
        "topology: {kind: explicit, hosts: [a], switches: [a], links: []}",
        "$.topology.switches",
        "names two nodes",
    ),
    (
        "topology: {kind: explicit, hosts: 2, links: {a: 0, b: 1}}",
        "$.topology.links",
        "is not a list",
    ),
    (
        "topology: {kind: explicit, hosts: 2, links: [{a: 0, b: 1, rate: 100}]}",
        "$.topology.links[0].rate",
        'did you mean "100Gbps"?',
    ),
    ("topology: {kind: file, path: ''}", "$.topology.path", "is empty"),
]

FABRIC = [
    ("switch: {bufer: 9MB}", "$.switch.bufer", 'did you mean "buffer"?'),
    ("switch: {buffer: 9}", "$.switch.buffer", 'did you mean "9B"?'),
    ("switch: {buffer: 9M}", "$.switch.buffer", '"9MB" or "9MiB"'),
    ("switch: {buffer: 0B}", "$.switch.buffer", "is too small"),
    ("switch: {buffer: 1MB, reserved: 1MB}", "$.switch.reserved", "is not below the buffer"),
    ("switch: {buffer: 1MB, headroom: 2MB}", "$.switch.headroom", "is not below the buffer"),
    ("switch: {headroom: atuo}", "$.switch.headroom", 'did you mean "auto"?'),
    ("switch: {dt_alpha: 0}", "$.switch.dt_alpha", "is out of range"),
    ("switch: {dt_alpha: 1/0}", "$.switch.dt_alpha", "divides by zero"),
    ("switch: {dt_alpha: .nan}", "$.switch.dt_alpha", "is not a number"),
    ("switch: {pfc: yes}", "$.switch.pfc", "did you mean true?"),
    ("switch: {lossless_classes: [3, 8]}", "$.switch.lossless_classes[1]", "is too large"),
    ("switch: {lossless_classes: [3, 3]}", "$.switch.lossless_classes[1]", "is entry [0] too"),
    ("switch: {lossless_classes: 3}", "$.switch.lossless_classes", "write [3]"),
    ("switch: {ecn: off}", "$.switch.ecn", "did you mean false?"),
    ("switch: {ecn: {kmin: 5KB, kmax: 1KB}}", "$.switch.ecn.kmin", "swap them"),
    ("switch: {ecn: {kmin: 5KB, kmax: 5KB}}", "$.switch.ecn.kmin", "one byte above"),
    ("switch: {ecn: {kmin: 5KB, kmax: 9KB, pmax: 20}}", "$.switch.ecn.pmax", 'write "20%"'),
    ("switch: {ecn: {kmin: 5KB}}", "$.switch.ecn.kmax", "is missing"),
    ("switch: {ecn: {when: sojourn}}", "$.switch.ecn.tmin", "is missing"),
    ("switch: {ecn: {when: sojourn, tmin: 5us, kmin: 1KB}}", "$.switch.ecn.kmin", "of no use"),
    ("switch: {ecn: {when: sojourn, tmin: 5us, tmax: 1us}}", "$.switch.ecn.tmin", "above tmax"),
    ("switch: {ecn: {kmin: 5KB, kmax: 9KB, tmin: 1us}}", "$.switch.ecn.tmin", "of no use"),
    ("switch: {ecn: {kmin: 5KB, kmax: 9KB, when: late}}", "$.switch.ecn.when", "dequeue"),
    ("switch: {dscp: {64: 3}}", "$.switch.dscp.64", "0 to 63"),
    ("switch: {dscp: {26: 8}}", "$.switch.dscp.26", "0 to 7"),
    ("switch: {dscp: {af31: 3}}", "$.switch.dscp.af31", "0 to 63"),
    ("switch: {dscp: 26}", "$.switch.dscp", "is not a mapping"),
    ("transport: {dscp: {3: 64}}", "$.transport.dscp.3", "0 to 63"),
    ("switch: [9MB]", "$.switch", "is not a mapping"),
    ("nic: {latency: 300 nano}", "$.nic.latency", "not accepted"),
    ("nic: {model: 1}", "$.nic.model", "has no such key"),
    ("transport: {recovery: gobackn}", "$.transport.recovery", "is not known"),
    ("transport: {path: ecpm}", "$.transport.path", 'did you mean "ecmp"?'),
    ("transport: {mtu: 9001}", "$.transport.mtu", "is too large"),
    ("transport: {mtu: 255}", "$.transport.mtu", "is too small"),
    ("transport: {rto: 0}", "$.transport.rto", "is too small"),
    ("transport: {rto: .inf}", "$.transport.rto", "does not begin with a number"),
    ("transport: {class: 8}", "$.transport.class", "is too large"),
    ("transport: {sr_window: 1000}", "$.transport.sr_window", "write 512 or 1024"),
    (
        "transport: {recovery: sr, sr_window: 64}",
        "$.transport.sr_reorder",
        "is not below sr_window",
    ),
    (
        "transport: {recovery: sr, ack_every: 2000}",
        "$.transport.ack_every",
        "is more than sr_window",
    ),
    ("transport: {cc: 3}", "$.transport.cc", 'write "3" in quotes'),
    ("transport: {cc_params: [1]}", "$.transport.cc_params", "is not a mapping"),
    ("transport: {cc_params: {g: [1]}}", "$.transport.cc_params.g", "is not one value"),
]

WORKLOAD = [
    ("workload: {permutation: {size: 2MB}}", "$.workload", 'put "- " before'),
    ("workload: permutation", "$.workload", "is not a list"),
    ("workload: [permutation]", "$.workload[0]", "is not a mapping"),
    ("workload: [{permutation: 2MB}]", "$.workload[0].permutation", "is not a mapping"),
    ("workload: [{permutation: }]", "$.workload[0].permutation", "null is not a mapping"),
    ("workload: [{}]", "$.workload[0]", "has 0 keys"),
    (
        "workload: [{permutation: {size: 1B}, tag: x}]",
        "$.workload[0]",
        'put "tag" inside the braces',
    ),
    ("workload: [{incats: {fan_in: 3}}]", "$.workload[0].incats", 'did you mean "incast"?'),
    ("workload: [{permutation: {size: 0B}}]", "$.workload[0].permutation.size", "is too small"),
    (
        "workload: [{permutation: {size: 2000000}}]",
        "$.workload[0].permutation.size",
        'did you mean "2000000B"?',
    ),
    (
        "workload: [{permutation: {size: 1B, start: 2us, until: 1us}}]",
        "$.workload[0].permutation.until",
        "is not after start",
    ),
    (
        "workload: [{permutation: {size: 1B, bakground: true}}]",
        "$.workload[0].permutation.bakground",
        'did you mean "background"?',
    ),
    (
        "workload: [{permutation: {size: 1B, class: 9}}]",
        "$.workload[0].permutation.class",
        "is too large",
    ),
    (
        "workload: [{poisson: {sizes: websearch, load: 0, until: 1ms}}]",
        "$.workload[0].poisson.load",
        "out of range",
    ),
    (
        "workload: [{poisson: {sizes: websearch, load: 30, until: 1ms}}]",
        "$.workload[0].poisson.load",
        'write "30%"',
    ),
    ("workload: [{poisson: {sizes: websearch, load: 0.3}}]", "$.workload[0].poisson", "never ends"),
    (
        "workload: [{poisson: {sizes: websearch, load: 0.3, of: wires, until: 1ms}}]",
        "$.workload[0].poisson.of",
        'did you mean "wire"?',
    ),
    (
        "workload: [{poisson: {sizes: websearch, load: 0.3, until: 1ms, hosts: [1]}}]",
        "$.workload[0].poisson.hosts",
        "has 1 entries",
    ),
    ("workload: [{poisson: {load: 0.3, until: 1ms}}]", "$.workload[0].poisson.sizes", "is missing"),
    (
        "workload: [{incast: {fan_in: 0, receiver: 0, size: 1B}}]",
        "$.workload[0].incast.fan_in",
        "is too small",
    ),
    (
        "workload: [{incast: {fan_in: 3, receiver: -1, size: 1B}}]",
        "$.workload[0].incast.receiver",
        "is negative",
    ),
    (
        "workload: [{incast: {fan_in: 3, receiver: 0, size: 1B, senders: [1, 2]}}]",
        "$.workload[0].incast.fan_in",
        "more than the 2 senders",
    ),
    (
        "workload: [{incast: {fan_in: 1, receiver: 0, size: 1B, senders: [1, 0]}}]",
        "$.workload[0].incast.senders[1]",
        "send to itself",
    ),
    (
        "workload: [{incast: {fan_in: 1, receiver: 0, size: 1B, every: 1us, load: 0.1, count: 1}}]",
        "$.workload[0].incast.load",
        "together with every",
    ),
    (
        "workload: [{incast: {fan_in: 1, receiver: 0, size: 1B, count: 3}}]",
        "$.workload[0].incast.count",
        "needs every or load",
    ),
    (
        "workload: [{incast: {fan_in: 1, receiver: 0, size: 1B, every: 1us}}]",
        "$.workload[0].incast",
        "never ends",
    ),
    ("workload: [{flows: }]", "$.workload[0].flows", "null is not a mapping"),
    (
        "workload: [{flows: {path: f.csv, unit: minutes}}]",
        "$.workload[0].flows.unit",
        "is not known",
    ),
    (
        "until: 1us\nworkload: [{permutation: {size: 1B, start: 1us}}]",
        "$.workload[0].permutation.start",
        "is not before the end",
    ),
]

OTHER = [
    ("record: {packets: {where: 'flw == 3'}}", "$.record.packets.where", 'did you mean "flow"?'),
    ("record: {packets: {where: 3}}", "$.record.packets.where", "is not text"),
    ("record: {packets: 'flow == 3'}", "$.record.packets", "write {where:"),
    ("record: {packets: {limit: 0}}", "$.record.packets.limit", "is too small"),
    ("record: {queues: 1us}", "$.record.queues", "write {every: 1us}"),
    ("record: {queues: {every: 0}}", "$.record.queues.every", "is too small"),
    (
        "record: {queues: {every: 1us, ports: last-hop}}",
        "$.record.queues.ports",
        'did you mean "last_hop"?',
    ),
    ("record: {watermarks: false}", "$.record.watermarks", "every: null ends p99"),
    ("record: {watermarks: 100us}", "$.record.watermarks", "write {periodic: 100us}"),
    ("record: {watermarks: {every: 10ps}}", "$.record.watermarks.every", "is too small"),
    ("record: {watermarks: {periodic: 5}}", "$.record.watermarks.periodic", "has no unit"),
    ("record: {watermarks: {clear: [1us]}}", "$.record.watermarks.clear", "has no such key"),
    ("record: {watermarks: {clear_user: 4us}}", "$.record.watermarks.clear_user", "write [4us]"),
    (
        "record: {watermarks: {clear_user: [1us, 2us, 1us]}}",
        "$.record.watermarks.clear_user[2]",
        "is entry [0] too",
    ),
    (
        "record: {watermarks: {clear_persistent: [1us, 0]}}",
        "$.record.watermarks.clear_persistent[1]",
        "is too small",
    ),
    (
        "until: 1ms\nrecord: {watermarks: {clear_persistent: [1us, 1ms]}}",
        "$.record.watermarks.clear_persistent[1]",
        "is not before the end of the run (1ms)",
    ),
    ("seed: -1", "$.seed", "is too small"),
    ("seed: '7'", "$.seed", "write 7 without quotes"),
    ("seed: 1e3", "$.seed", "write 1000"),
    ("seed: " + "9" * 5000, "$.seed", "is not a whole number"),
    ("name: 128", "$.name", 'write "128" in quotes'),
    ('name: "a\\tb"', "$.name", "cannot be printed"),
    ("ties: draws", "$.ties", 'did you mean "draw"?'),
    ("until: 1:30", "$.until", "not accepted"),
    ("until: 0", "$.until", "is too small"),
    ("swich: {buffer: 9MB}", "$.swich", 'did you mean "switch"?'),
]

NOT_YAML = [
    ("", "$", "is empty"),
    ("# nothing\n", "$", "is empty"),
    ("- a", "$", "is not a mapping"),
    ("400", "$", "is not a mapping"),
    ("seed: 1", "$.topology", "is missing"),
    ("topology:\n\tkind: star\n", "$.topology", "a tab indents this line; indent with spaces"),
    (
        STAR + "topology: {kind: star, hosts: 5}",
        "$.topology",
        'the key "topology" stands here twice',
    ),
    ("topology: {kind: star, hosts: 4, hosts: 5}", "$.topology.hosts", "stands here twice"),
    ("topology: {kind: star, hosts: 4", "$.topology", "ends inside a value"),
    ("topology: {kind: star hosts: 4}", "$.topology", "is not YAML"),
    (STAR + "name: a: b", "$", "put the value in quotes"),
    (STAR + "name: @a", "$.name", "put the value in quotes"),
    (STAR + "name: 'a", "$.name", "is not YAML"),
    (STAR + "name: *a", "$.name", "refers to nothing"),
    (STAR + "record: &a {packets: *a}", "$.record.packets", "refers to nothing"),
    (
        STAR + "name: !!python/object/apply:os.system [ls]",
        "$.name",
        "!!python/object/apply:os.system is not allowed",
    ),
    (STAR + "---\nseed: 2", "$", "second document"),
    (STAR + "? [a]\n: 3", "$", "a key is not plain text"),
    (STAR + "<<: {seed: 3}", "$", "merge keys"),
    (STAR + "name: \x07", "$", "U+0007"),
    ("[" * 200, "$[0][0][0][0][0][0][0][0]", "nested more than 40"),
    (STAR + "x: " + "[" * 60 + "]" * 60, "$.x[0][0][0][0][0][0][0]", "nested more than 40"),
    (
        "a: &a [" + "1," * 2000 + "]\nb: &b [" + "*a," * 2000 + "]\nc: [" + "*b," * 2000 + "]",
        "$",
        "more than 4000000",
    ),
]

CASES = (
    [(STAR + text, path, says) for text, path, says in FABRIC + WORKLOAD + OTHER]
    + TOPOLOGY
    + NOT_YAML
)


@pytest.mark.parametrize(("text", "path", "says"), CASES, ids=range(len(CASES)))
def test_malformed_text(text: str, path: str, says: str) -> None:
    """One mistake gives one error: the path, what is wrong or the fix, and the line."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, name="bad.yaml")
    (error,) = caught.value.errors
    assert error.path == path
    assert says in str(error)
    assert error.where.startswith("bad.yaml")
    assert "\n" not in str(error) and len(str(error)) < 600
    assert caught.value.exit_code == 2


def test_the_line_is_that_of_the_value() -> None:
    """docs/scenario.md: an error names file, line and column of the value."""
    text = "name: x\ntopology:\n  kind: star\n  hosts: 4\n  rate: 400\n"
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, name="bad.yaml")
    assert caught.value.where == "bad.yaml:5:9"
    assert str(caught.value) == (
        '$.topology.rate: 400 has no unit; did you mean "400Gbps"? (allowed: rate with its unit, '
        'such as "400Gbps", 1Mbps to 1000Tbps) [bad.yaml:5:9]'
    )


def test_all_errors_at_once() -> None:
    """docs/scenario.md: everything that can be found is reported together, each on its own line."""
    text = (
        "sede: 1\ntopology: {kind: star, hosts: 4, rate: 400, dely: 1us}\n"
        "switch: {buffer: 9, pfc: on}\nworkload: [{permutation: {}}, "
        "{incast: {fan_in: 0, size: 1, receiver: 0}}, {flow: f.csv}]\n"
    )
    with pytest.raises(ScenarioErrors) as caught:
        parse_scenario(text, name="bad.yaml")
    assert [error.path for error in caught.value.errors] == [
        "$.sede",
        "$.topology.dely",
        "$.topology.rate",
        "$.switch.buffer",
        "$.switch.pfc",
        "$.workload[0].permutation.size",
        "$.workload[1].incast.fan_in",
        "$.workload[1].incast.size",
        "$.workload[2].flow",
    ]
    assert len(str(caught.value).splitlines()) == 9


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (STAR.encode("utf-16"), "is UTF-16 data"),
        (STAR.encode("utf-16-be"), "is binary data"),
        (b"\x1f\x8b\x08\x00rest", "is gzip data"),
        (b"\x89HDF\r\n\x1a\n", "is HDF5 data"),
        (bytes(range(256)), "is binary data"),
        (b"name: caf\xe9\n" + STAR.encode(), "0xe9 is not UTF-8"),
        (b"\xef\xbb\xbf", "is empty"),
    ],
)
def test_files_that_are_not_text(tmp_path: Path, data: bytes, says: str) -> None:
    """A file in another encoding or format is named as such."""
    file = tmp_path / "bad.yaml"
    file.write_bytes(data)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(file)
    assert says in str(caught.value)
    assert str(file) in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A directory, a missing file and an impossible name are errors; a near name is proposed."""
    (tmp_path / "perm.yaml").write_text(STAR)
    with pytest.raises(ScenarioError, match="is a directory"):
        load_scenario(tmp_path)
    with pytest.raises(ScenarioError, match=r'does not exist; did you mean "perm.yaml"\?'):
        load_scenario(tmp_path / "prem.yaml")
    with pytest.raises(ScenarioError, match="does not exist"):
        load_scenario(tmp_path / "no" / "such.yaml")
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_scenario("a\0b")


GOOD = (
    "topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 100Gbps}\n"
    "switch:\n  buffer: 9MB\n  ecn: {kmin: 4KB, kmax: 16KB}\nworkload:\n"
    "  - permutation: {size: 2MB}\n  - poisson: {sizes: websearch, load: 0.3,"
    ' until: 2ms}\nrecord: {packets: {where: "flow == 3"}}\n'
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(GOOD)),
            st.integers(0, 3),
            st.text("{}[]:,-\"'&*!#%@|>?\t\n 01a\x00\u00e9", max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_damaged_text(damage: list[tuple[int, int, str]]) -> None:
    """Whatever is cut out of a good scenario or typed into it: it loads, or gives an error."""
    text = GOOD
    for place, cut, typed in damage:
        text = text[:place] + typed + text[place + cut :]
    try:
        parse_scenario(text)
    except EmunetError as error:
        assert str(error).startswith("$")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "auto", "1us", "2MB", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "kind", "size", "kmin"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.sampled_from(
        [
            "name",
            "seed",
            "topology",
            "topology.hosts",
            "topology.rate",
            "topology.kind",
            "switch",
            "switch.ecn",
            "switch.ecn.kmin",
            "switch.headroom",
            "switch.dt_alpha",
            "switch.pfc",
            "switch.lossless_classes",
            "nic",
            "transport.cc_params",
            "transport.mtu",
            "transport.cc",
            "workload",
            "record",
            "record.packets",
            "record.queues",
            "record.watermarks",
            "record.watermarks.clear_user",
            "until",
            "ties",
        ]
    ),
    json_values,
)
def test_values_of_the_wrong_type(path: str, value: object) -> None:
    """Whatever value stands at a key, in Python data too: it is taken, or refused by an error."""
    from emunet.scenario import Scenario

    data: dict = {"topology": {"kind": "star", "hosts": 4}}
    *way, last = path.split(".")
    part = data
    for step in way:
        part = part.setdefault(step, {})
    part[last] = value
    try:
        Scenario.model_validate(data)
    except EmunetError as error:
        assert str(error).startswith("$.")
