"""Scenario models and loader: what is accepted means what docs/scenario.md says."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunet.errors import ScenarioError, ScenarioErrors
from emunet.scenario import (
    Dumbbell,
    Ecn,
    Explicit,
    FatTree,
    Flows,
    Incast,
    LeafSpine,
    Link,
    Permutation,
    Poisson,
    Queues,
    Record,
    Scenario,
    Star,
    Switch,
    TopologyFile,
    Transport,
    json_schema,
    load_scenario,
    parse_scenario,
)
from emunet.scenario.schema import reference, sections

PAGE = (Path(__file__).parents[2] / "docs" / "scenario.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.partition("```yaml\n")[2].partition("```")[0]


def test_the_example_of_the_documentation() -> None:
    """docs/scenario.md: the example loads, and its quantities are integers in base units."""
    scenario = parse_scenario(EXAMPLE)
    assert scenario.topology == FatTree(k=8, rate=400 * 10**9, delay=10**6)
    assert scenario.switch.buffer == 32_000_000
    assert scenario.switch.dt_alpha == 0.125
    assert scenario.switch.ecn == Ecn(kmin=400_000, kmax=1_600_000, pmax=0.2)
    assert (scenario.nic.latency, scenario.nic.pfc_response) == (300_000, 300_000)
    assert scenario.transport == Transport(cc="dcqcn", recovery="gbn", path="ecmp", mtu=4096)
    assert scenario.workload == (
        Permutation(size=2_000_000),
        Poisson(sizes="websearch", load=0.3, until=2 * 10**9),
        Incast(fan_in=32, receiver=0, size=1_000_000, start=10**8),
        Flows(path="traces/example.csv"),
    )
    assert scenario.record.queues == Queues(every=10**6)
    assert scenario.record.packets is not None and scenario.record.packets.where == "flow == 3"
    assert scenario.notes() == []


def test_the_page_lists_every_key() -> None:
    """The tables of docs/scenario.md are those of the models: key, default, range, meaning."""
    assert PAGE.endswith(reference()), "write emunet.scenario.schema.reference() below the marker"


def test_every_key_says_what_it_means() -> None:
    """Claim of docs/scenario.md: no key without a meaning."""
    for path, model in sections():
        for name, info in model.model_fields.items():
            assert name == "kind" or info.description, f"{path}: {name}"


def test_defaults() -> None:
    """docs/scenario.md: only the topology is required; defaults are those of the table."""
    scenario = parse_scenario("topology: {kind: star, hosts: 2}")
    assert scenario == Scenario(topology=Star(hosts=2))
    assert scenario.transport.rto == 4096 * 10**3 * 2**10
    assert (scenario.switch.headroom, scenario.switch.ecn) == ("auto", "auto")
    assert scenario.until is None and scenario.workload == ()
    assert scenario.notes() == ["$.workload: empty, so nothing will be sent"]


@pytest.mark.parametrize("section", ["switch", "nic", "transport", "record"])
def test_an_empty_section_means_its_defaults(section: str) -> None:
    """docs/scenario.md: ``switch:`` with nothing below it is the default switch."""
    text = "topology: {kind: star, hosts: 2}\n"
    assert parse_scenario(f"{text}{section}:\n") == parse_scenario(text)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", "auto"),
        ("auto", "auto"),
        ("false", False),
        ("{kmin: 1KB, kmax: 2KB}", Ecn(kmin=1000, kmax=2000)),
    ],
)
def test_ecn(written: str, value: object) -> None:
    """docs/scenario.md: ecn is auto, false or a ramp."""
    scenario = parse_scenario(f"{{topology: {{kind: star, hosts: 2}}, switch: {{ecn: {written}}}}}")
    assert scenario.switch.ecn == value


TOPOLOGIES = [
    Star(hosts=3, rate="25Gbps"),
    Dumbbell(left=2, right=3, bottleneck="10Gbps"),
    LeafSpine(leaves=4, spines=2, hosts_per_leaf=8, uplink_rate="800Gbps", parallel=2),
    FatTree(k=4, tier_rates=["100Gbps", "200Gbps", "400Gbps"]),
    Explicit(
        hosts=["a", "b"], switches=1, links=[Link(a="a", b="switch0", rate="1Gbps"), Link(a=1, b=2)]
    ),
    TopologyFile(path="topology.txt", dialect="hpcc"),
]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: t.kind)
@pytest.mark.parametrize("defaults", [True, False])
def test_written_scenarios_load_back_equal(topology: Any, defaults: bool) -> None:
    """`to_yaml` is what the trace keeps: it loads back equal, with and without defaults."""
    scenario = Scenario(
        name='a "name": #1',
        topology=topology,
        switch=Switch(ecn=False, headroom="20KB", lossless_classes=[3, 4], dt_alpha="1/3"),
        transport=Transport(
            cc="./mine.py",
            cc_set="paper",
            cc_params={"g": 1 / 256, "rate": "40Gbps", "on": True},
            klass=4,
        ),
        workload=[
            Permutation(size=1, background=True, tag="1e3"),
            Poisson(sizes="0x10", load="12.5%", of="payload", hosts=[0, 1], until="1ms", klass=0),
            Incast(fan_in=1, receiver=0, size="4KiB", every="1us", count=3, senders=["host1"]),
            Flows(path="~", unit="ns"),
        ],
        record=Record(queues={"every": "1us", "ports": "fabric"}, packets=True, pfc=False),
        ties="port",
        until="1.000000000001s",
    )
    text = scenario.to_yaml(defaults=defaults)
    assert parse_scenario(text) == scenario
    assert parse_scenario(text).to_yaml(defaults=defaults) == text
    assert Scenario.model_validate(scenario.to_dict(defaults=defaults)) == scenario


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    rate=st.integers(10**6, 10**15),
    delay=st.integers(0, 10**15),
    size=st.integers(1, (2**32 - 1) * 4096),
    alpha=st.floats(1e-30, 1024),
    name=st.text(min_size=1, max_size=20).filter(lambda t: t.isprintable() and t.strip()),
    tag=st.sampled_from(["null", "yes", "1", "0o7", "1e3", "a: b", "- x", "'", "#", "~", ".5"]),
)
def test_any_values_load_back_equal(
    rate: int, delay: int, size: int, alpha: float, name: str, tag: str
) -> None:
    """Round trip of quantities, doubles and awkward texts through YAML."""
    scenario = Scenario(
        name=name,
        topology=Star(hosts=2, rate=rate, delay=delay),
        switch=Switch(dt_alpha=alpha),
        workload=[Permutation(size=size, tag=tag)],
    )
    assert parse_scenario(scenario.to_yaml()) == scenario


def test_python_takes_integers_and_text() -> None:
    """docs/scenario.md: in Python, integers are base units; floats are refused."""
    assert Star(hosts=2, rate=10**11, delay=0) == Star(hosts=2, rate="100Gbps", delay="0ns")
    with pytest.raises(ScenarioError, match=r"\$\.rate: 100000000000.0 is a float"):
        Star(hosts=2, rate=1e11)
    with pytest.raises(ScenarioError, match=r"\$\.rate: .* has no unit"):
        Star(hosts=2, rate="100")
    with pytest.raises(ScenarioErrors) as caught:
        Scenario(
            topology=Star(hosts=2),
            transport={"klass": 9},
            workload=[{"incast": {"fan_in": 0, "size": 1}}],
        )
    assert [e.path for e in caught.value.errors] == [
        "$.transport.class",
        "$.workload[0].incast.fan_in",
    ]


def test_class_is_klass_in_python_only() -> None:
    """docs/scenario.md: the key is `class`, the attribute `klass`."""
    assert Transport(klass=5) == Transport(**{"class": 5})
    assert Transport(klass=5).klass == 5
    with pytest.raises(ScenarioError, match="other name"):
        Transport(**{"class": 5, "klass": 5})
    with pytest.raises(ScenarioError, match=r'\$\.transport\.klass: .*did you mean "class"'):
        parse_scenario("{topology: {kind: star, hosts: 2}, transport: {klass: 5}}")


def test_scenarios_are_values() -> None:
    """A scenario is frozen, copies equal, and `replace` checks like the constructor."""
    scenario = parse_scenario(EXAMPLE)
    with pytest.raises(Exception, match="frozen"):
        scenario.seed = 2  # type: ignore[misc]
    assert copy.deepcopy(scenario) == scenario == pickle.loads(pickle.dumps(scenario))
    assert scenario.replace(seed=2).seed == 2
    assert scenario.replace(seed=2) != scenario
    with pytest.raises(ScenarioError):
        scenario.replace(seed=-1)


def test_errors_survive_pickling() -> None:
    """Errors cross process borders unchanged."""
    with pytest.raises(ScenarioErrors) as caught:
        parse_scenario("{seed: -1, name: ''}", name="x.yaml")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_files(tmp_path: Path) -> None:
    """A scenario knows its file, folder and the place of each value, for errors of later stages."""
    file = tmp_path / "one.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.strip().replace("\n", "\r\n").encode())
    scenario = load_scenario(file)
    assert scenario == parse_scenario(EXAMPLE)
    assert (scenario.file, scenario.base_dir) == (str(file), tmp_path)
    assert scenario.locate("$.workload[2].incast.receiver") == f"{file}:11:36"
    assert scenario.locate("$.switch.reserved") == f"{file}:4:1"
    error = scenario.error("$.workload[2].incast.receiver", 0, "is not a host")
    assert str(error) == f"$.workload[2].incast.receiver: 0 is not a host [{file}:11:36]"
    assert load_scenario(file, base_dir="/").base_dir == Path("/")


def test_overrides() -> None:
    """docs/scenario.md: --set changes, adds and removes values, each value in YAML, in order."""
    scenario = parse_scenario(
        EXAMPLE,
        [
            "switch.buffer=9MB",
            "workload[0].permutation.size=1MB",
            "workload[4]={incast: {fan_in: 8, receiver: 3, size: 500KB}}",
            "switch.ecn=false",
            "$.transport.class=4",
            "record.queues=null",
            "record.packets={where: kind == 'drop'}",
            "seed=7",
            "seed=8",
        ],
    )
    assert scenario.switch.buffer == 9_000_000
    assert scenario.workload[0] == Permutation(size=1_000_000)
    assert scenario.workload[4] == Incast(fan_in=8, receiver=3, size=500_000)
    assert scenario.switch.ecn is False
    assert (scenario.transport.klass, scenario.record.queues, scenario.seed) == (4, None, 8)
    assert scenario.locate("$.switch.buffer") == "--set switch.buffer=9MB"


def test_overrides_make_what_is_absent() -> None:
    """docs/scenario.md: mappings and lists on the way are made."""
    scenario = parse_scenario(
        "topology: {kind: star, hosts: 2}",
        ["workload[0].permutation.size=1B", "record.queues.every=1us"],
    )
    assert scenario.workload == (Permutation(size=1),)
    assert scenario.record.queues == Queues(every=10**6)


def test_overrides_below_an_alias_change_one_place() -> None:
    """An alias is a copy: setting a value below one leaves the others alone."""
    text = "topology: {kind: star, hosts: 2}\nworkload: [&a {permutation: {size: 1B}}, *a]"
    scenario = parse_scenario(text, ["workload[1].permutation.size=2B"])
    assert scenario.workload == (Permutation(size=1), Permutation(size=2))


@pytest.mark.parametrize(
    ("setting", "path", "says"),
    [
        ("a", "$", "no = in it"),
        ("=3", "$", "the path is empty"),
        ("switch..x=3", "$", "not a path"),
        ("workload[9].x=3", "$.workload", "[9] is beyond its 4 entries"),
        (
            "workload.permutation.size=3B",
            "$.workload",
            "it is a list; write $.workload[0].permutation",
        ),
        ("seed.x=3", "$.seed", 'has no "x"'),
        ("topology[0]=3", "$.topology", "not a list"),
        ("switch.bufer=9MB", "$.switch.bufer", 'did you mean "buffer"?'),
        ("switch.buffer=9", "$.switch.buffer", 'did you mean "9B"?'),
        ("seed=[", "$", "ends inside a value"),
        ("name=", "$.name", "is empty"),
    ],
)
def test_wrong_overrides(setting: str, path: str, says: str) -> None:
    """Every wrong --set names its path and itself."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(EXAMPLE, [setting])
    assert caught.value.path == path
    assert says in str(caught.value)
    assert f"--set {setting}" in str(caught.value)


def test_yaml_is_read_by_the_core_rules() -> None:
    """YAML 1.2, 10.3.2: octal needs 0o, `yes` and `1:30` are text, exponents need no point."""
    values = parse_scenario(
        "{topology: {kind: star, hosts: 2}, transport: {cc_params: "
        "{a: 010, b: 0o17, c: yes, d: 1:30, e: 1e3, f: 0x1F,"
        ' g: 1_000, h: "1", i: -.5}}}'
    ).transport.cc_params
    assert values == {
        "a": 10,
        "b": 15,
        "c": "yes",
        "d": "1:30",
        "e": 1000.0,
        "f": 31,
        "g": "1_000",
        "h": "1",
        "i": -0.5,
    }


def test_notes() -> None:
    """docs/scenario.md: what is allowed but probably not meant is said, not refused."""
    scenario = Scenario(
        topology=Star(hosts=4),
        transport=Transport(mtu=1500, path="spray"),
        workload=[Permutation(size=1), Permutation(size=1, klass=0)],
    )
    notes = scenario.notes()
    assert [n.split(":")[0] for n in notes] == [
        "$.transport.mtu",
        "$.transport.path",
        "$.workload[1]",
    ]


def test_schema_describes_the_example() -> None:
    """`emunet schema`: every mapping is closed and defines each key of the format."""
    schema = json_schema()
    closed = [d for d in schema["$defs"].values() if d.get("type") == "object"]
    assert schema["additionalProperties"] is False and all(
        d["additionalProperties"] is False for d in closed
    )
    for path, model in sections():
        properties = (
            schema["properties"]
            if model is Scenario
            else schema["$defs"][model.__name__]["properties"]
        )
        assert set(model.file_keys()) <= set(properties), path
    kinds = [
        next(iter(e["properties"])) for e in schema["properties"]["workload"]["items"]["anyOf"]
    ]
    assert kinds == ["permutation", "poisson", "incast", "flows"]
    assert schema["$defs"]["Switch"]["properties"]["buffer"]["default"] == "32MB"


def test_the_python_example_runs() -> None:
    """docs/scenario.md: the example in Python runs, and its text loads back equal."""
    names: dict[str, Any] = {}
    exec(PAGE.partition("```python\n")[2].partition("```")[0], names)
    assert parse_scenario(names["text"]) == names["scenario"]
    assert names["smaller"].seed == 2
