"""``emunet run``, ``check`` and ``replay``: what they print and how they end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import emunet as api
from emunet._core import MOST_THREADS
from emunet.cli import options
from emunet.errors import UsageError

POLICY = '"""Nothing."""\nimport numpy as np\n\nPARAMS = ()\nSTATE = np.dtype([])'

REQUIRED = [
    "flows.total",
    "flows.finished",
    "flows.unfinished",
    "flows.fct_ps.p50",
    "flows.fct_ps.p99",
    "flows.fct_ps.max",
    "flows.slowdown.p50",
    "flows.slowdown.p99",
    "packets.hops",
    "packets.data",
    "packets.ack",
    "packets.dropped",
    "packets.marked",
    "packets.retransmitted",
    "pfc.pauses",
    "pfc.paused_ps",
    "ports.fabric.watermark_bytes",
    "ports.last_hop.watermark_bytes",
    "engine.wall_s",
    "engine.cpu_s",
    "engine.packet_hops_per_cpu_s",
    "engine.threads",
    "engine.peak_rss_bytes",
    "digest",
]


def test_json_is_one_object_with_every_promised_key(emunet: Callable, permutation: Path) -> None:
    """Claim of the manual: ``--json`` prints exactly one object, with at least these keys."""
    answer = emunet("run", permutation, "--json")
    assert answer.code == 0
    for path in REQUIRED:
        value = answer.json
        for key in path.split("."):
            value = value[key]
        assert value is not None, path
    assert answer.json["flows"]["total"] == answer.json["flows"]["finished"] == 16


def test_packets_of_a_run_without_loss(emunet: Callable, permutation: Path) -> None:
    """Claim by arithmetic: 16 messages of 200 kB are ceil(200000 / 4096) = 49 packets each, each
    acknowledged once; without loss nothing is sent again."""
    packets = emunet("run", permutation, "--json").json["packets"]
    assert packets["data"] == packets["ack"] == 16 * 49
    assert packets["dropped"] == packets["retransmitted"] == 0


def test_the_table_goes_to_stdout_and_quiet_says_nothing(
    emunet: Callable, permutation: Path, tmp_path: Path
) -> None:
    """Claim: the result is on stdout and ends with the trace's path; ``-q`` prints nothing."""
    out = tmp_path / "run.h5"
    answer = emunet("run", permutation, "-o", out)
    assert "16 flows" in answer.out
    assert answer.out.splitlines()[-1] == str(out)
    assert emunet("run", permutation, "-q", "--cc", "none") == (
        type(answer)(0, "", "")  # not even a warning: nothing is odd about it
    )


def test_an_existing_trace_is_kept(emunet: Callable, permutation: Path, tmp_path: Path) -> None:
    """Claim: a trace is replaced with ``--force`` only; without it that is a usage error."""
    out = tmp_path / "run.h5"
    assert emunet("run", permutation, "-o", out, "-q").code == 0
    before = out.read_bytes()
    refused = emunet("run", permutation, "-o", out, "-q")
    assert refused.code == 2
    assert "--force" in refused.err
    assert out.read_bytes() == before
    assert emunet("run", permutation, "-o", out, "-q", "--force").code == 0


INPUTS = """
topology: {kind: file, path: fabric.txt}
transport: {cc: ./mine.py}
workload:
  - flows: list.csv
  - poisson: {sizes: sizes.txt, load: 0.1, until: 10us}
"""


@pytest.mark.parametrize("name", ["all.yaml", "fabric.txt", "mine.py", "list.csv", "sizes.txt"])
def test_force_never_replaces_what_the_run_reads(
    emunet: Callable, write: Callable[[str, str], Path], name: str
) -> None:
    """Claim of the help: ``--force`` leaves the scenario and the files that it names alone, and
    says so before anything runs."""
    write("fabric.txt", "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n")
    write("mine.py", f"{POLICY}\n")
    write("list.csv", "src,dst,size_bytes,start_ns\n0,1,1000,0\n")
    write("sizes.txt", "1000 0\n2000 100\n")
    scenario = write("all.yaml", INPUTS)
    out = scenario.with_name(name)
    assert emunet("run", scenario, "-q").code == 0
    before = out.read_bytes()
    refused = emunet("run", scenario, "-o", out, "--force", "-q")
    assert (refused.code, refused.err) == (
        2,
        f"{out}: this run reads it; name another for the trace\n",
    )
    assert out.read_bytes() == before
    assert not out.with_name(f"{name}.part").exists()


def test_twin_gives_the_same_digest(emunet: Callable, permutation: Path) -> None:
    """Claim: native and twin engine give equal results."""
    native = emunet("run", permutation, "--json").json
    twin = emunet("run", permutation, "--json", "--twin").json
    assert native["digest"] == twin["digest"]


def test_threads_do_not_show(emunet: Callable, permutation: Path) -> None:
    """Claim: results do not depend on the number of threads."""
    digests = {emunet("run", permutation, "--json", "--threads", n).json["digest"] for n in (1, 2)}
    assert len(digests) == 1


def test_too_many_threads_are_a_usage_error(emunet: Callable, permutation: Path) -> None:
    """Claim: the engine takes up to 256 threads; more are refused by name, in Python, too."""
    assert options.MOST_THREADS == MOST_THREADS == 256
    for command in ("run", "verify"):
        refused = emunet(command, permutation, "--threads", 1000)
        assert refused.code == 2
        assert "1<=x<=256" in refused.err
    for threads in (0, 257):
        with pytest.raises(UsageError, match=f"threads: {threads} is not possible; 1 to 256"):
            api.run(permutation, threads=threads)


def test_unfinished_flows_are_code_4_with_a_reason_each(emunet: Callable, lossy: Path) -> None:
    """Claim: flows that were given up are exit code 4, each named with what it waited for."""
    answer = emunet("run", lossy, "--json")
    flows = answer.json["flows"]
    assert answer.code == 4
    assert flows["unfinished"] == flows["failed"] > 0
    assert answer.err.count("retries exhausted") == flows["unfinished"]


def test_background_flows_need_not_finish(emunet: Callable, lossy: Path) -> None:
    """Claim: the same flows marked as background are counted apart and are no failure."""
    answer = emunet("run", lossy, "--json", "--set", "workload[0].incast.background=true")
    assert answer.code == 0
    flows = answer.json["flows"]
    assert flows["background"] == 7 > flows["background_finished"]
    assert flows["unfinished"] == 0


def test_until_cuts_flows_without_failure(emunet: Callable, permutation: Path) -> None:
    """Claim: flows cut by an explicit end are counted apart; no exit code 4."""
    answer = emunet("run", permutation, "--json", "--until", "5us")
    assert answer.code == 0
    assert answer.json["reason"] == "until"
    assert answer.json["flows"]["cut"] == 16
    assert answer.json["flows"]["unfinished"] == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--set", "switch.bufer=3MB"], "buffer"),
        (["--set", "topology.rate=400"], "has no unit"),
        (["--cc", "dcqnc"], "dcqcn"),
        (["--cc", "missing.py"], "missing.py"),
        (["--until", "5"], "has no unit"),
        (["--threads", "0"], "threads"),
    ],
)
def test_wrong_values_are_code_2_and_leave_no_file(
    emunet: Callable, permutation: Path, tmp_path: Path, args: list[str], said: str
) -> None:
    """Claim: a wrong value ends with code 2, names the fix, and nothing is written."""
    before = set(tmp_path.iterdir())
    answer = emunet("run", permutation, "-o", tmp_path / "run.h5", *args)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert set(tmp_path.iterdir()) == before


def test_a_failure_with_json_is_one_object(emunet: Callable, permutation: Path) -> None:
    """Claim: ``--json`` prints one object when a command fails, too."""
    answer = emunet("run", permutation, "--json", "--set", "seed=-1")
    assert answer.code == answer.json["exit_code"] == 2
    assert "$.seed" in answer.json["error"]


def test_a_wrong_input_file_is_code_3(emunet: Callable, write: Callable) -> None:
    """Claim: a problem in a flow list ends with code 3 and names file and line."""
    flows = write("flows.csv", "src,dst,size_bytes,start_us\n0,1,1000,0\n0,nobody,1000,0\n")
    answer = emunet("replay", flows, "--topology", "star,hosts=4")
    assert answer.code == 3
    assert "flows.csv:3" in answer.err


def test_replay_is_the_scenario_in_one_line(emunet: Callable, write: Callable) -> None:
    """Claim: ``replay`` gives what a scenario of the same flows and topology gives."""
    flows = write("flows.csv", "src,dst,size_bytes,start_us\n0,1,50000,0\n2,1,70000,1\n")
    scenario = write(
        "scenario.yaml", "topology: {kind: star, hosts: 4}\nworkload: [flows: flows.csv]\n"
    )
    replayed = emunet("replay", flows, "-t", "star,hosts=4", "--json")
    assert replayed.code == 0
    assert replayed.json["digest"] == emunet("run", scenario, "--json").json["digest"]
    faster = emunet("replay", flows, "-t", "star,hosts=4,rate=800Gbps", "--json")
    assert faster.json["flows"]["fct_ps"]["max"] < replayed.json["flows"]["fct_ps"]["max"]


def test_replay_takes_the_unit_and_the_flows_that_are_there(
    emunet: Callable, write: Callable
) -> None:
    """Claim: ``--unit`` and ``--lenient`` are `unit` and `lenient` of the scenario's `flows`;
    without them a list without header starts in ns, and a count that is wrong is an error."""
    flows = write("flows.txt", "0 1 50000 0\n2 1 70000 3\n")
    digests = []
    for unit in ("ns", "us"):
        entry = f"flows: {{path: flows.txt, unit: {unit}}}"
        text = f"topology: {{kind: star, hosts: 4}}\nworkload: [{entry}]\n"
        digests.append(emunet("run", write(f"{unit}.yaml", text), "--json").json["digest"])
        given = emunet("replay", flows, "-t", "star,hosts=4", "--unit", unit, "--json")
        assert given.json["digest"] == digests[-1]
    assert digests[0] != digests[1]
    usual = emunet("replay", flows, "-t", "star,hosts=4", "--json")
    assert usual.json["digest"] == digests[0]
    wrong = write("wrong.cm", "Nodes 4\nConnections 3\n0->1 start 0 size 5000\n")
    refused = emunet("replay", wrong, "-t", "star,hosts=4")
    assert (refused.code, "lenient" in refused.err) == (3, True)
    taken = emunet("replay", wrong, "-t", "star,hosts=4", "--lenient", "--json")
    assert (taken.code, taken.json["flows"]["total"]) == (0, 1)


def test_check_passes_what_runs_and_refuses_what_does_not(
    emunet: Callable, permutation: Path
) -> None:
    """Claim: ``check`` does every check of ``run`` without running."""
    assert emunet("check", permutation).code == 0
    answer = emunet("check", permutation, "--set", "topology.k=3")
    assert answer.code == 2
    assert "$.topology.k" in answer.err


def test_dry_run_counts_the_packet_hops_of_a_run_without_loss(
    emunet: Callable, permutation: Path
) -> None:
    """Claim: the estimate of packet-hops is exact for a run without loss or notifications, and the
    estimate of time has its range the right way round."""
    args = ("run", permutation, "--json", "--set", "switch.ecn=false")
    needs = emunet(*args, "--dry-run").json
    assert needs["packet_hops"] == emunet(*args).json["packets"]["hops"]
    assert needs["cpu_s"]["low"] <= needs["cpu_s"]["likely"] <= needs["cpu_s"]["high"]
    assert needs["scenario"]["transport"]["mtu"] == 4096


BAD_POLICY = '''"""A policy that fails at the fifth acknowledgement.

Source: none.
"""

import numpy as np

PARAMS = ()
STATE = np.dtype([("n", "i8")], align=True)
CLAIMS = ()


def ack(ctx, params, state, out):
    out.rate_bps = ctx.rate_bps / (4 - ctx.una_bytes // 4096)
'''


def test_a_failing_policy_shows_its_own_line(
    emunet: Callable, permutation: Path, write: Callable
) -> None:
    """Claim: an exception in a user's policy ends the run with code 3 and its line."""
    policy = write("bad.py", BAD_POLICY)
    for engine in ([], ["--twin"]):
        answer = emunet("run", permutation, "--cc", policy, *engine)
        assert answer.code == 3
        assert f"{policy}:14" in answer.err
        assert "ZeroDivisionError" in answer.err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def ack(ctx", "def ack(ctx,,", "syntax error"),
        ("ctx.una_bytes", "ctx.una_byte", "has no field una_byte"),
        ("PARAMS = ()", 'PARAMS = (Param("g", 1.0, "furlong", 0.0, 2.0, "gain"),)', "furlong"),
        ("out.rate_bps =", "import os; out.rate_bps =", "imports os"),
        ("out.rate_bps = ctx", "out.rate_bps = print(f'{ctx.now_ps:x}') + ctx", "be compiled"),
    ],
)
def test_a_wrong_text_of_a_policy_is_code_2(
    emunet: Callable, permutation: Path, write: Callable, old: str, new: str, said: str
) -> None:
    """Claim: a policy file that cannot be a policy is a wrong value of the scenario, with its line;
    nothing is written."""
    text = BAD_POLICY.replace("import numpy as np", "import numpy as np\nfrom emunet import Param")
    assert old in text
    policy = write("bad.py", text.replace(old, new))
    answer = emunet("run", permutation, "--cc", policy, "-o", policy.with_name("run.h5"))
    assert answer.code == 2, answer.err
    assert said in answer.err
    assert f"{policy}:" in answer.err
    assert not list(policy.parent.glob("run.h5*"))


def test_the_python_api_takes_files_mappings_and_objects(permutation: Path) -> None:
    """Claim: a file, a mapping and a `Scenario` of the same content give the same results, and
    ``emunet.run`` is the function whatever else was imported."""
    import emunet.run as module

    assert callable(api.run)
    assert module is api.run
    by_file = api.run(permutation)
    by_mapping = api.run(
        {
            "name": "small",
            "topology": {"kind": "fat_tree", "k": 4, "rate": "100Gbps"},
            "workload": [{"permutation": {"size": "200KB"}}],
        }
    )
    by_object = api.run(str(permutation), set=["seed=1"])
    assert by_file.digest == by_mapping.digest == by_object.digest
    assert len(by_file.flows) == 16
    assert by_file.summary["flows"]["finished"] == 16
    assert api.run(permutation, seed=2).digest != by_file.digest
