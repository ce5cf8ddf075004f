"""Loading policies: what a good file gives, and a located error for each way to write a bad one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from emunet.errors import PluginError, ScenarioError
from emunet.plugin import CTX, KEEP, OUT, available, load, make_record

HEAD = """\
import numpy as np
from emunet.plugin import Param

PARAMS = (Param("gain", 0.5, "", 0.0, 1.0, "weight"),)
STATE = np.dtype([("count", "i8")], align=True)

"""
GOOD = HEAD + "def ack(ctx, params, state, out):\n    state.count += 1\n"


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.py"
    file.write_text(text, encoding="utf-8")
    return file


def error_of(folder: Path, text: str) -> PluginError:
    with pytest.raises(PluginError) as caught:
        load("congestion", write(folder, text))
    assert "mine.py" in caught.value.file
    return caught.value


def test_emunets_own_policies_are_found_by_name() -> None:
    """Claim of the registry: each file in the slot's folder is a policy; nothing lists them."""
    assert available("congestion") == ["dcqcn", "fixed", "none"]
    assert load("congestion", "none").hooks == {}
    assert load("congestion", "none").addresses() == {}
    assert list(load("congestion", "dcqcn").hooks) == ["start", "ack", "cnp", "timer"]


def test_loading_does_not_import_numba() -> None:
    """Claim of the package: Numba is imported by compiling only, so that starting up stays fast."""
    program = (
        "import sys; from emunet.plugin import load, available\n"
        "[load('congestion', name) for name in available('congestion')]\n"
        "load('congestion', 'none').addresses()\n"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_good_file(tmp_path: Path) -> None:
    """Claim of docs/policies.md: PARAMS, STATE and one hook are enough."""
    policy = load("congestion", write(tmp_path, GOOD), params={"gain": "1/8"})
    assert (policy.name, policy.set_name, policy.claims) == ("mine", None, ())
    assert policy.params[0].gain == 0.125
    assert np.frombuffer(policy.params_bytes, "f8").tolist() == [0.125]
    assert policy.param_values() == {"gain": 0.125}
    ctx, state, out = make_record(CTX), make_record(policy.state_dtype), make_record(OUT)
    policy.call("ack", ctx, state, out)
    assert state.count == 1


def test_relative_paths_start_at_the_base(tmp_path: Path) -> None:
    """Claim: `./mine.py` in a scenario lies beside the scenario."""
    write(tmp_path, GOOD)
    assert load("congestion", "./mine.py", base_dir=tmp_path).path == tmp_path / "mine.py"


def test_the_digest_is_of_the_text(tmp_path: Path) -> None:
    """Claim: equal texts have equal digests, whatever the line ends; a changed constant shows."""
    digest = load("congestion", write(tmp_path, GOOD)).source_digest
    assert load("congestion", write(tmp_path, GOOD.replace("+= 1", "+= 2"))).source_digest != digest
    (tmp_path / "mine.py").write_bytes(GOOD.replace("\n", "\r\n").encode())
    assert load("congestion", tmp_path / "mine.py").source_digest == digest


def test_plain_and_numpy_records_are_served_alike(tmp_path: Path) -> None:
    """Claim of `Policy.call`: Records, numpy records and arrays of length one all serve."""
    policy = load("congestion", write(tmp_path, GOOD))
    for state in (
        make_record(policy.state_dtype),
        np.zeros(1, policy.state_dtype).view(np.recarray),
        np.zeros(1, policy.state_dtype).view(np.recarray)[0],
        np.zeros(1, policy.state_dtype)[0],
    ):
        ctx, out = np.zeros(1, CTX)[0], np.zeros(1, OUT).view(np.recarray)[0]
        policy.call("ack", ctx, state, out)
        policy.call("ack", ctx, state, out)
        count = state.count if hasattr(state, "count") else state["count"]
        assert int(np.ravel(count)[0]) == 2


def hook(body: str) -> str:
    return HEAD + "def ack(ctx, params, state, out):\n" + body


BAD = {
    "syntax": (HEAD + "def ack(ctx:\n", 7, "syntax error"),
    "no params": ("import numpy as np\nSTATE = np.dtype([])\n", 0, "has no PARAMS"),
    "no state": ("PARAMS = ()\n", 0, "has no STATE"),
    "params not a tuple": (GOOD.replace("PARAMS = (", "PARAMS = [1] or ("), 4, "must be a tuple"),
    "default out of range": (GOOD.replace("0.5, ", "1.5, "), 4, "not between 0.0 and 1.0"),
    "unit without suffix": (GOOD.replace('0.5, ""', '0.5, "ps"'), 4, "ends in '_ps'"),
    "unknown unit": (GOOD.replace('0.5, ""', '0.5, "ms"'), 4, "is not one of bit/s"),
    "two of one name": (
        GOOD.replace("PARAMS = (", 'PARAMS = (Param("gain", 1, "", 0, 1, "x"), '),
        4,
        "same name",
    ),
    "state not a dtype": (
        GOOD.replace("np.dtype([(", "list([(").replace(", align=True", ""),
        5,
        "must be a numpy dtype",
    ),
    "state not aligned": (GOOD.replace(", align=True", ""), 5, "must be aligned"),
    "state too big": (GOOD.replace('"i8")', '"i8", (33,))'), 5, "264 bytes; at most 256"),
    "nested state": (GOOD.replace('"i8")', '[("a", "f8")])'), 5, "record in the record"),
    "two-dimensional state": (GOOD.replace('"i8")', '"i8", (2, 2))'), 5, "2 dimensions"),
    "unsigned state": (GOOD.replace('"i8")', '"u8")'), 5, "is uint64; use f8"),
    "single precision": (GOOD.replace('"i8")', '"f4")'), 5, "is float32; use f8"),
    "object state": (GOOD.replace('"i8")', '"O")'), 5, "is object; use f8"),
    "hook arguments": (
        HEAD + "def ack(ctx, state, out):\n    pass\n",
        7,
        "must be ack(ctx, params, state, out), not ack(ctx, state, out)",
    ),
    "hook default": (
        HEAD + "def ack(ctx, params, state, out=None):\n    pass\n",
        7,
        "not ack(ctx, params, state, out=None)",
    ),
    "misspelt hook": (
        HEAD + "def on_akc(ctx, params, state, out):\n    pass\n",
        7,
        'did you mean "ack"?',
    ),
    "no hook": (HEAD, 0, "defines no hook"),
    "decorated hook": (GOOD.replace("def ack", "@property\ndef ack"), 8, "has a decorator"),
    "unknown ctx field": (hook("    state.count = ctx.rtt\n"), 8, "ctx has no field rtt"),
    "unknown out field": (hook("    out.window = 3\n"), 8, 'did you mean "window_bytes"?'),
    "unknown param": (hook("    state.count = params.gian\n"), 8, 'did you mean "gain"?'),
    "writes a param": (hook("    params.gain = 1.0\n"), 8, "params is read only"),
    "writes the context": (hook("    ctx.now_ps += 1\n"), 8, "ctx is read only"),
    "undefined name": (hook("    state.count = conut\n"), 8, "the name conut is not defined"),
    "undefined in a helper": (
        HEAD + "def _f(x):\n    return y\n\ndef ack(ctx, params, state, out):\n    _f(1)\n",
        8,
        "_f: the name y is not defined",
    ),
    "with": (hook("    with open('x') as f:\n        pass\n"), 8, "with cannot be compiled"),
    "global": (hook("    global N\n    N = 1\n"), 8, "global cannot be compiled"),
    "inner function": (hook("    def f():\n        pass\n"), 8, "functions inside functions"),
    "import": ("import os\n" + GOOD, 1, "imports os, but a policy stands alone"),
    "neighbour": ("from .other import x\n" + GOOD, 1, "imports a neighbouring file"),
    "recursion": (hook("    ack(ctx, params, state, out)\n"), 8, "ack leads back to itself"),
    "recursion of two": (
        HEAD + "def _f(x):\n    return _g(x)\n\ndef _g(x):\n    return _f(x)\n\n"
        "def ack(ctx, params, state, out):\n    _f(1)\n",
        8,
        "_f leads back to itself",
    ),
    "leaves": (hook("    raise SystemExit(3)\n"), 8, "SystemExit would end the program"),
    "leaves by Ctrl-C": (hook("    raise KeyboardInterrupt\n"), 8, "would end the program"),
    "exits at import": (HEAD + "raise SystemExit(0)\n", 7, "SystemExit: 0"),
    "interrupts at import": (HEAD + "raise KeyboardInterrupt\n", 7, "KeyboardInterrupt"),
    "recurses at import": (
        HEAD + "def f(x):\n    return f(x)\n\nf(1)\n", 8, "RecursionError"
    ),
    "raises": (HEAD + "x = 1 / 0\n", 7, "ZeroDivisionError"),
    "sets not a mapping": (GOOD + "SETS = [1]\n", 9, "SETS must map names"),
    "set names no param": (GOOD + 'SETS = {"a": {"gian": 1.0}}\n', 9, 'did you mean "gain"?'),
    "set out of range": (GOOD + 'SETS = {"a": {"gain": 2.0}}\n', 9, "is out of range"),
    "claims not a tuple": (GOOD + 'CLAIMS = "fast"\n', 9, "CLAIMS must be a tuple"),
}


@pytest.mark.parametrize("text, line, message", BAD.values(), ids=BAD)
def test_bad_files_give_the_line_and_the_reason(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    """Claim of docs/policies.md: what is wrong with a file is said with its line before it runs."""
    error = error_of(tmp_path, text)
    assert message in str(error)
    assert error.line == line
    if line:
        assert error.source == text.splitlines()[line - 1].strip()


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    """Claim: no bytes make a traceback."""
    file = tmp_path / "mine.py"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PluginError, match="cannot be read"):
        load("congestion", file)
    file.write_bytes(b"x = 1\x00")
    with pytest.raises(PluginError):
        load("congestion", file)


@pytest.mark.parametrize(
    ("choice", "kind", "params", "message"),
    [
        (
            "dcqnc",
            None,
            {},
            '$.transport.cc: "dcqnc" is not a congestion policy; did you mean "dcqcn"?',
        ),
        ("./no.py", None, {}, '$.transport.cc: "./no.py" does not exist'),
        ("dcqcn", "mellanxo", {}, '$.transport.cc_set: "mellanxo" is not a parameter set'),
        ("fixed", "paper", {}, "(allowed: none)"),
        ("dcqcn", None, {"gian": 1}, "$.transport.cc_params.gian: is not a parameter"),
        ("dcqcn", None, {"gain": 2}, "$.transport.cc_params.gain: 2 is out of range"),
        ("dcqcn", None, {"gain": "fast"}, '"fast" is not a number'),
        ("dcqcn", None, {"gain": None}, "null is not a number"),
        ("dcqcn", None, {"gain": float("nan")}, "nan is not a finite number"),
        ("dcqcn", None, {"threshold": 1.5}, "1.5 is not a whole number"),
        ("dcqcn", None, {"threshold": True}, "true is not a number"),
        ("dcqcn", None, {"alpha_period": 55}, "55 has no unit; write its unit"),
        ("dcqcn", None, {"alpha_period": "55"}, '"55" has no unit; did you mean "55us"?'),
        ("dcqcn", None, {"alpha_period": "1h"}, "not accepted"),
        ("fixed", None, {"rate": "40Gb"}, 'did you mean "40Gbps"?'),
    ],
)
def test_bad_values_give_their_path(
    choice: str, kind: str | None, params: dict, message: str
) -> None:
    """Claim: what the scenario says wrongly is an error with the path of the value and the fix."""
    with pytest.raises(ScenarioError) as caught:
        load("congestion", choice, kind, params)
    assert message in str(caught.value)


def test_several_bad_values_are_told_at_once() -> None:
    """Claim: nobody has to run again to see the next error."""
    with pytest.raises(ScenarioError) as caught:
        load("congestion", "dcqcn", params={"gain": 2, "threshold": -1})
    assert len(caught.value.errors) == 2


def test_a_name_beside_the_scenario_is_pointed_out(tmp_path: Path) -> None:
    """Claim: who leaves out ./ and .py is told so."""
    write(tmp_path, GOOD)
    with pytest.raises(ScenarioError, match=r'did you mean "./mine.py"\?'):
        load("congestion", "mine", base_dir=tmp_path)


def test_unknown_slot() -> None:
    """Claim: a slot that does not exist is an error of the caller."""
    with pytest.raises(ValueError, match="is not a slot"):
        load("marking", "red")


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"rate": "40Gbps"}, 40e9),
        ({"rate_bps": "5GB/s"}, 40e9),
        ({"rate_bps": 40_000_000_000}, 4e10),
        ({"rate_bps": "40000000000"}, 40e9),
        ({"rate": 0}, 0.0),
        ({"rate_bps": np.float64(1e9)}, 1e9),
    ],
)
def test_values_take_units_or_the_unit_of_the_name(given: dict, stored: float) -> None:
    """Claim of docs/policies.md: `rate: 40Gbps`, or `rate_bps: 40000000000`, whose name has the
    unit."""
    assert load("congestion", "fixed", params=given).params[0].rate_bps == stored


def test_overrides_go_over_the_set() -> None:
    """Claim: the set first, then single parameters; what neither names has its default."""
    policy = load("congestion", "dcqcn", "paper", {"ai": "80Mbps", "cut_on_cnp": False})
    values = policy.param_values()
    assert (values["ai_bps"], values["hai_bps"], values["cut_on_cnp"]) == (80e6, 200e6, 0)
    assert values["window_bdp"] == 0.0
    assert load("congestion", "dcqcn").set_name == "mellanox"
    assert (
        load("congestion", "dcqcn").params_bytes
        == load("congestion", "dcqcn", "mellanox").params_bytes
    )


def test_decisions_start_as_documented() -> None:
    """Claim of the contract: KEEP is -1, and the records have the layout that the engine uses."""
    assert (KEEP, CTX.itemsize, OUT.itemsize) == (-1, 128, 48)
    assert [CTX.fields[name][1] for name in CTX.names] == list(range(0, 128, 8))
