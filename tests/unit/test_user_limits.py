"""What the engine cannot take or will do badly is said before the run, with place and fix."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from emunet.cli import emunet as command
from emunet.dryrun import cpu_times, needs
from emunet.errors import InputFileError, ScenarioError
from emunet.ingest.flows_read import read_flows
from emunet.plan.compile import compile_scenario, path_model
from emunet.plan.fabric import Settings
from emunet.run import prepare, run
from emunet.scenario import parse_scenario
from emunet.selftest import Speed
from emunet.topology import describe
from emunet.topology.dumbbell import dumbbell
from emunet.topology.facts import farthest

MOST = (2**32 - 1) * 4096
"""The largest message of `Engine.submit` at the default MTU."""

STAR = "topology: {kind: star, hosts: 4}\n"
TOO_LATE = "5000000s"


def prepared(tmp_path: Path, work: str, more: str = "", topology: str = STAR) -> Any:
    path = tmp_path / "s.yaml"
    path.write_text(f"{topology}{more}workload:\n  - {work}\n")
    return prepare(path)


@pytest.mark.parametrize(
    ("work", "path"),
    [
        ("permutation: {size: 20TB}", "permutation.size"),
        ("incast: {fan_in: 2, receiver: 0, size: 20TB}", "incast.size"),
        ("poisson: {sizes: 20TB, load: 0.3, until: 1ms}", "poisson.sizes"),
        (f"permutation: {{size: {MOST + 1}B}}", "permutation.size"),
    ],
)
def test_a_message_beyond_the_engine_is_refused_with_its_place(
    tmp_path: Path, work: str, path: str
) -> None:
    """Authority: `Engine.submit` takes at most 2^32 - 1 packets."""
    with pytest.raises(ScenarioError) as caught:
        prepared(tmp_path, work)
    text = str(caught.value)
    assert text.startswith(f"$.workload[0].{path}: ")
    assert str(MOST) in text and "s.yaml:3:" in text and caught.value.fix


def test_the_largest_message_of_a_small_mtu_is_taken(tmp_path: Path) -> None:
    """Two sides of the limit at MTU 256: one byte more is refused; the engine takes the limit."""
    most, mtu = (2**32 - 1) * 256, "until: 1us\ntransport: {mtu: 256, cc: none}\n"
    prepared(tmp_path, f"permutation: {{size: {most}B}}", mtu)
    assert run(tmp_path / "s.yaml").reason == "until"
    with pytest.raises(ScenarioError, match=f"{most}B"):
        prepared(tmp_path, f"permutation: {{size: {most + 1}B}}", mtu)


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        (
            "f.csv",
            "src,dst,size_TB,start_ns\n0,1,20,0\n",
            r'f\.csv:2:5: "20" is more than .*{most}',
        ),
        ("f.txt", f"0 1 {MOST + 1} 0\n", r'f\.txt:1:5: ".*" is more than .*{most}.*write at most'),
        ("f.csv", "src,dst,size_B,start_s\n0,1,9,1\n0,1,9,5000000\n", r"f\.csv:3:7: .* is later"),
        (
            "f.cm",
            f"Nodes 2\nConnections 1\n0->1 start {5 * 10**18} size 9\n",
            r"f\.cm:3:12: .*late",
        ),
    ],
)
def test_a_flow_beyond_the_limits_is_refused_with_its_line(
    tmp_path: Path, name: str, text: str, error: str
) -> None:
    """Authority: `Engine.submit` and the end of time of `emunet.run`, 2^62 ps."""
    (tmp_path / name).write_text(text)
    with pytest.raises(InputFileError, match=error.replace("{most}", str(MOST))):
        prepared(tmp_path, f"flows: {name}")


@pytest.mark.parametrize(
    ("options", "key"),
    [("start: 5000000s", "start"), ("time_scale: 1000000", "time_scale")],
)
def test_flows_moved_beyond_the_end_are_refused(tmp_path: Path, options: str, key: str) -> None:
    """The same for starts that the scenario moves; those that it moves back run."""
    (tmp_path / "f.csv").write_text("src,dst,size_B,start_s\n0,1,9,6\n")
    with pytest.raises(ScenarioError, match=rf"\$\.workload\[0\]\.flows\.{key}: .*last time"):
        prepared(tmp_path, f"flows: {{path: f.csv, {options}}}")
    (tmp_path / "f.csv").write_text("src,dst,size_B,start_s\n0,1,9,5000000\n")
    made = prepared(tmp_path, "flows: {path: f.csv, start: 1us}")
    assert next(iter(made.stream)).start_ps.tolist() == [10**6]


@pytest.mark.parametrize(
    ("work", "more", "path"),
    [
        (f"permutation: {{size: 1B, start: {TOO_LATE}}}", "", "workload[0].permutation.start"),
        ("permutation: {size: 1B}", f"until: {TOO_LATE}\n", "until"),
        (
            f"poisson: {{sizes: 1KB, load: 0.1, until: {TOO_LATE}}}",
            "",
            "workload[0].poisson.until",
        ),
        (
            "incast: {fan_in: 1, receiver: 0, size: 1B, every: 1000s, count: 10000}",
            "",
            "workload[0].incast.count",
        ),
    ],
)
def test_times_beyond_the_end_are_refused(tmp_path: Path, work: str, more: str, path: str) -> None:
    """Authority: the end of time of `emunet.run`; what starts later would never run."""
    with pytest.raises(ScenarioError) as caught:
        prepared(tmp_path, work, more)
    assert str(caught.value).startswith(f"$.{path}: ")
    assert "53 days" in str(caught.value) and caught.value.fix


@pytest.mark.parametrize("name", ["f.csv", "f.txt"])
def test_a_comment_that_is_not_utf8_is_refused(tmp_path: Path, name: str) -> None:
    """docs/workloads.md: text that is not UTF-8 is refused, with line and column."""
    head = b"src,dst,size_B,start_ns\n0,1,9,0\n" if name == "f.csv" else b"0 1 9 0\n0 1 9 0\n"
    (tmp_path / name).write_bytes(head + b"# caf\xe9\n")
    with pytest.raises(InputFileError, match=rf"{name}:3:6: the byte 0xE9 is not UTF-8.*save"):
        read_flows(tmp_path / name, name=name)
    (tmp_path / name).write_bytes(head + "# café \ufffd\n".encode())
    assert len(read_flows(tmp_path / name)) == head.count(b"9,0\n") + head.count(b"9 0\n")


@pytest.mark.parametrize("kind", ["poisson: {sizes: 1KB", "incast: {fan_in: 1, size: 1KB"])
def test_a_load_above_one_is_not_called_a_percentage(tmp_path: Path, kind: str) -> None:
    """1.3 is a load that is too large; only 30 may have been meant as a percentage."""
    with pytest.raises(ScenarioError) as caught:
        prepared(tmp_path, f"{kind}, load: 1.3, until: 1ms}}")
    said = str(caught.value)
    assert "a load is a fraction of the host rate, at most 1" in said and "up to 1" in said
    assert "1.3%" not in said
    with pytest.raises(ScenarioError, match='at most 1; for a percentage write "30%"'):
        prepared(tmp_path, f"{kind}, load: 30, until: 1ms}}")


LOSSY_SR = "switch: {pfc: false}\ntransport: {recovery: sr, cc: none%s}\n"


def test_selective_repeat_that_sees_no_loss_is_warned(tmp_path: Path) -> None:
    """docs/semantics.md, sr loss: psn + reorder < highest, so 257 packets never show one at 256."""
    work = "permutation: {size: 1MB}"
    (warning,) = prepared(tmp_path, work, LOSSY_SR % "").stream.warnings
    for part in ("$.transport.sr_reorder", "256", "245", "timeout (4194304ns)", "set transport.sr"):
        assert part in warning
    assert not prepared(tmp_path, work, LOSSY_SR % ", sr_reorder: 16").stream.warnings
    assert not prepared(tmp_path, work, "transport: {recovery: sr}\n").stream.warnings
    assert not prepared(tmp_path, work, "switch: {pfc: false}\n").stream.warnings
    for packets, n in ((257, 1), (258, 0)):
        work = f"permutation: {{size: {packets * 4096}B}}"
        assert len(prepared(tmp_path, work, LOSSY_SR % "").stream.warnings) == n


@pytest.mark.parametrize(
    ("add_ps", "words"),
    [(0, "before the first ACK"), (80_000, "one packet in a queue"), (100_000, "")],
)
def test_a_timeout_within_a_round_trip_is_warned(add_ps: int, words: str) -> None:
    """Arithmetic: a full packet of 4178 slot bytes takes 83,560 ps at 400 Gb/s."""
    scenario = parse_scenario(f"{STAR}transport: {{cc: none}}\n")
    compiled = compile_scenario(scenario)
    far = farthest(compiled.topology, compiled.paths)
    assert far is not None
    rtt_ps = int(compiled.paths.base_rtt_ps(0, 1))
    assert far.rtt_ps == rtt_ps and not compiled.warnings
    rto = f"transport: {{cc: none, rto: {rtt_ps + add_ps}ps}}\n"
    found = compile_scenario(parse_scenario(STAR + rto)).warnings
    assert len(found) == bool(words)
    for text in found:
        assert text.startswith("$.transport.rto: ") and words in text
        assert f"{rtt_ps / 1e6:g}us" in text and "set transport.rto to several times" in text


def test_the_loads_are_shown_before_the_run(tmp_path: Path) -> None:
    """docs/workloads.md: both loads, the distribution and its mean; one line an element."""
    work = "poisson: {sizes: websearch, load: 0.3, of: payload, until: 10us}\n  - flows: f.csv"
    (tmp_path / "f.csv").write_text("src,dst,size_B,start_ns\n0,1,9,0\n")
    found = needs(prepared(tmp_path, work))
    lines = [text for name, text in found.lines if name == "workload"]
    assert [line.split(":")[0] for line in lines] == ["poisson", "flows"]
    for part in ("websearch, mean ", "0.3 of payload", "on the wire 0.3", "0.3 as payload"):
        assert part in lines[0]
    poisson, flows = found.numbers["workload"]
    assert poisson["kind"] == "poisson" and poisson["load"] in lines[0]
    assert "dialect csv" in flows["file"]
    answer = CliRunner().invoke(command, ["check", str(tmp_path / "s.yaml")])
    assert lines[0] in answer.output


def test_exact_packet_hops_are_those_without_a_guess(tmp_path: Path) -> None:
    """Exact is what users read: no notifications that a policy may ask for, no message cut."""
    work, none = "permutation: {size: 1MB}", "transport: {cc: none}\n"

    def exact(more: str) -> bool:
        return bool(needs(prepared(tmp_path, work, more)).numbers["exact"])

    assert exact(none)
    assert exact("switch: {ecn: false}\n")
    assert not exact("transport: {cc: dcqcn}\n")
    assert not exact(f"{none}until: 10us\n")
    assert exact(f"{none}until: 1s\n")


def test_short_messages_and_packet_logs_take_longer(tmp_path: Path) -> None:
    """The time has a range the right way round, and counts messages and logged events."""
    rate = Speed(1e6, 2e6, 3e6)
    plain, logged, short = (
        needs(prepared(tmp_path, work, f"transport: {{cc: none}}\n{more}"))
        for work, more in (
            ("permutation: {size: 1MB}", ""),
            ("permutation: {size: 1MB}", "record: {packets: true}\n"),
            ("permutation: {size: 1KB, until: 20us}", ""),
        )
    )
    for found in (plain, logged, short):
        times = cpu_times(found, rate)
        assert times["low"] <= times["likely"] <= times["high"]
    assert logged.packet_hops == plain.packet_hops and logged.work_hops > 2 * plain.work_hops
    assert short.work_hops > 2 * short.packet_hops


MEMORY = {
    "a small run without a policy": "permutation: {size: 100KB}",
    "100,000 messages": "poisson: {sizes: google_rpc, load: 0.3, until: 155us}",
}


@pytest.mark.parametrize("work", MEMORY.values(), ids=list(MEMORY))
def test_the_memory_of_a_process_is_within_its_factor(tmp_path: Path, work: str) -> None:
    """docs/scenario.md: the estimate is within 1.5 of the process's own peak, both ways.

    The shell in between forks: a child of this process would inherit its peak.
    """
    made = prepared(
        tmp_path, work, "transport: {cc: none}\n", "topology: {kind: star, hosts: 128}\n"
    )
    args = [
        "sh",
        "-c",
        '"$@"; exit $?',
        "sh",
        sys.executable,
        "-m",
        "emunet",
        "run",
        str(tmp_path / "s.yaml"),
        "--json",
        "-q",
    ]
    answer = subprocess.run(args, capture_output=True, text=True, check=True)
    peak = json.loads(answer.stdout)["engine"]["peak_rss_bytes"]
    assert peak / 1.5 < needs(made).numbers["memory_bytes"] < peak * 1.5


def test_the_bdp_is_that_of_the_slowest_link() -> None:
    """Arithmetic: 400 Gb/s hosts with 100 Gb/s between them hold 100 Gb/s times the RTT."""
    spec = "dumbbell,left=2,right=2,rate=400Gbps,bottleneck=100Gbps"
    answer = CliRunner().invoke(command, ["topo", "show", spec, "--json"])
    facts = json.loads(answer.output)
    assert facts["bdp_bytes"] == facts["base_rtt_ps"]["max"] * 100 * 10**9 // (8 * 10**12)
    even = json.loads(
        CliRunner().invoke(command, ["topo", "show", "fat_tree,k=4", "--json"]).output
    )
    fabric = dumbbell(2, 2, 400 * 10**9, 100 * 10**9, 10**6)
    paths = path_model(fabric, Settings())
    assert describe(fabric, paths)["bdp_bytes"] == farthest(fabric, paths).bdp_bytes
    rate = even["host_rate_bps"]
    assert even["bdp_bytes"] == even["base_rtt_ps"]["max"] * rate // (8 * 10**12)


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("topology.delay", "$.topology.delay"),
        ("nic.latency", "$.nic.latency"),
        ("nic.pfc_response", "$.nic.pfc_response"),
        ("switch.latency", "$.switch.latency"),
        ("switch.pfc_response", "$.switch.pfc_response"),
        ("transport.rto", "$.transport.rto"),
        ("transport.linger", "$.transport.linger"),
    ],
)
def test_delays_have_a_longest(tmp_path: Path, setting: str, path: str) -> None:
    """Claim of docs/scenario.md: delays go up to 1000 s, of which there and back over 1,000 links
    still fit the engine's 2^62 ps. The longest is prepared, what is longer refused by place.
    """
    file = tmp_path / "s.yaml"
    file.write_text(f"{STAR}workload:\n  - permutation: {{size: 1KB}}\n")
    assert needs(prepare(file, set=["switch.pfc=false", f"{setting}=1000s"])).packet_hops == 4 * 4
    with pytest.raises(ScenarioError, match=r'"1000001ms" is too large .* to 1000s\)') as caught:
        prepare(file, set=[f"{setting}=1000001ms"])
    assert caught.value.path == path


def test_numbers_are_quoted_as_written() -> None:
    """Claim: an error quotes the text, also of a number that no double holds, and cuts it."""
    for wrong in ("load: 1e400", "load: -1e999"):
        text = f"{STAR}workload:\n  - poisson: {{sizes: 1KB, {wrong}, until: 1us}}\n"
        with pytest.raises(ScenarioError, match=f'"{wrong[6:]}" is '):
            parse_scenario(text)
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(STAR, [f"topology.kind={'y' * 999}"])
    assert len(str(caught.value)) < 300
    assert f'"{"y" * 58}\u2026 is not' in str(caught.value)


@pytest.mark.parametrize("links", ["3 2 100Gbps 1us 0", "0 2 100Gbps 1us 0\n1 3 100Gbps 1us 0"])
def test_an_unconnected_topology_file_is_named(tmp_path: Path, links: str) -> None:
    """Claim: what is wrong with the graph of a topology file is said with the file's name."""
    n = links.count("\n") + 1
    (tmp_path / "fabric.txt").write_text(f"4 1 {n}\n2\n{links}\n")
    with pytest.raises(ScenarioError, match=r"host .* \[fabric\.txt\]$"):
        prepared(tmp_path, "permutation: {size: 1KB}",
                 topology="topology: {kind: file, path: fabric.txt}\n")  # fmt: skip
