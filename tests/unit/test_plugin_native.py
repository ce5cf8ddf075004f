"""Native hooks: results as in plain Python, errors at the user's line, a cache that may fail."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from emunet.errors import PluginError
from emunet.plugin import CTX, KEEP, OUT, Policy, Record, explain_failure, load, make_record
from emunet.plugin import compile as native

HOOK_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)

HEAD = """\
import math
import numpy as np
from emunet.plugin import KEEP, NACK, Param

PARAMS = (Param("gain", 0.25, "", 0.0, 1.0, "weight"), Param("n", 3, "", 0, 9, "count"))
STATE = np.dtype(
    [("f", "f8"), ("i", "i8"), ("k", "i4"), ("h", "i2"), ("c", "i1"), ("b", "?"), ("v", "f8", (3,)),
     ("w", "i4", (2,))], align=True)
SCALE = 2.5
TABLE = (1.0, 2.0, 4.0)
WEIGHTS = np.array([0.5, 0.25])


def _helper(x, y):
    return _inner(x) + y


def _inner(x):
    return SCALE * x


def ack(ctx, params, state, out):
"""
HOOK_LINE = HEAD.count("\n")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has its own cache on disk and none in memory."""
    monkeypatch.setenv("EMUNET_CACHE", str(tmp_path / "cache"))
    native._compile.cache_clear()
    yield
    native._compile.cache_clear()


def policy_of(folder: Path, body: str, name: str = "mine.py") -> Policy:
    file = folder / name
    file.write_text(HEAD + "".join(f"    {line}\n" for line in body.splitlines()), "utf-8")
    return load("congestion", file)


def records(policy: Policy, **ctx_fields: float) -> tuple[Record, Record, Record]:
    ctx, state, out = make_record(CTX), make_record(policy.state_dtype), make_record(OUT)
    ctx.line_rate_bps = ctx.rate_bps = out.rate_bps = 100e9
    ctx.window_bytes = out.window_bytes = 10**6
    for k in range(4):
        out.timer_ps[k] = KEEP
    for name, value in ctx_fields.items():
        setattr(ctx, name, value)
    return ctx, state, out


def call_native(policy: Policy, ctx: Record, state: Record, out: Record) -> int:
    hook = HOOK_TYPE(policy.addresses()["ack"])
    params = policy.params.ctypes.data
    return hook(ctx.array.ctypes.data, params, state.array.ctypes.data, out.array.ctypes.data)


COERCIONS = """\
state.f = 7
state.i = 7.9
state.k = -7.9
state.h = 70000
state.c = 300
state.b = ctx.marked + 2
state.v[0] = 3
state.v[2] = _helper(ctx.rtt_ps, params.n)
state.w[1] = 5.99
state.i += ctx.rtt_ps // 7 - (-ctx.rtt_ps) // 7 + (-ctx.rtt_ps) % 7
state.f = state.i / 3 + params.gain * params.n ** 2 + TABLE[params.n - 1] + WEIGHTS[1]
state.k += int(-2.5) + round(2.5) + NACK
if state.b and not ctx.cause:
    state.f += max(ctx.rtt_ps, 2.5) + min(1, 0.5) + abs(-3) + math.sqrt(ctx.rtt_ps)
for j in range(len(state.v)):
    state.v[j] += j / 7
out.timer_ps[1] = 10.7
out.timer_ps[0] = KEEP
out.window_bytes = ctx.rtt_ps * 0.1
out.rate_bps = 10**9 + 0 * state.f
"""


def test_assignments_convert_alike(tmp_path: Path) -> None:
    """Claim of the records: plain Python and native code store floats into integers, wide numbers
    into narrow fields, and compute with mixed types to the same bytes."""
    policy = policy_of(tmp_path, COERCIONS)
    for rtt_ps in (0, 1, 12_345_678, 2**53 - 1):
        ctx, state, out = records(policy, rtt_ps=rtt_ps)
        _, other_state, other_out = records(policy)
        policy.call("ack", ctx, state, out)
        assert call_native(policy, ctx, other_state, other_out) == 1
        assert other_state.tobytes() == state.tobytes(), f"{other_state} != {state}"
        assert other_out.tobytes() == out.tobytes(), f"{other_out} != {out}"
    assert (state.h, state.c, state.v[2]) == (70000 - 65536, 300 - 256, 2.5 * rtt_ps + 3 + 2 / 7)


FAILURES = {
    "division": ("x = 1.0\nstate.f = x / ctx.rtt_ps\n", 2, "ZeroDivisionError"),
    "whole division": ("x = 1\nstate.i = x // ctx.rtt_ps\n", 2, "ZeroDivisionError"),
    "in a helper": ("state.f = _helper(1.0, 1 % ctx.rtt_ps)\n", 1, "ZeroDivisionError"),
    "index": ("state.i = 5\nout.timer_ps[state.i] = 1\n", 2, "IndexError"),
    "raised": (
        "state.i = 1\nif ctx.rtt_ps < 1:\n    raise ValueError('low')\n",
        3,
        "ValueError: low",
    ),
}


@pytest.mark.parametrize(("body", "line", "message"), FAILURES.values(), ids=FAILURES)
def test_a_failing_hook_gives_0_and_the_users_line(
    tmp_path: Path, body: str, line: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Claim of docs/policies.md: an exception in a native hook makes it return 0, silently, and
    repeating the call in plain Python shows the file, the line, its text and the exception."""
    policy = policy_of(tmp_path, body)
    ctx, state, out = records(policy)
    before = state.tobytes()
    assert call_native(policy, ctx, state, out) == 0
    assert capfd.readouterr().err == ""
    assert state.tobytes() == before
    error = explain_failure(policy, "ack", ctx.tobytes(), state.tobytes())
    assert (error.file, error.line) == (str(policy.path), HOOK_LINE + line)
    assert error.source == body.splitlines()[line - 1].strip()
    assert message in str(error)
    assert str(error).startswith(f"{policy.path}:{HOOK_LINE + line}: ack failed: ")
    assert isinstance(error.__cause__, Exception)


@pytest.mark.parametrize("fields", ['("n", "i8")', '("n", "i4"), ("m", "i4", (2,))', '("n", "i1")'])
def test_a_failing_call_leaves_the_state_as_it_was(tmp_path: Path, fields: str) -> None:
    """Claim: a call that fails after counting can be repeated, so that its reason is found; a call
    that succeeds counts. States of every alignment, the memory beyond them untouched."""
    file = tmp_path / "mine.py"
    file.write_text(
        f"import numpy as np\nPARAMS = ()\nSTATE = np.dtype([{fields}], align=True)\n"
        "def ack(ctx, params, state, out):\n    state.n += 1\n"
        "    out.rate_bps = 1 / (state.n - 3)\n"
    )
    policy = load("congestion", file)
    memory = np.zeros(2, policy.state_dtype)
    memory[1]["n"] = 77
    ctx, _, out = records(policy)
    hook = HOOK_TYPE(policy.addresses()["ack"])
    params = policy.params.ctypes.data
    results = [
        hook(ctx.array.ctypes.data, params, memory.ctypes.data, out.array.ctypes.data)
        for _ in range(4)
    ]
    assert results == [1, 1, 0, 0]
    assert memory["n"].tolist() == [2, 77]
    error = explain_failure(policy, "ack", ctx, memory[0])
    assert error.line == 6
    assert memory["n"].tolist() == [2, 77]


def test_a_rate_that_is_not_a_number_is_a_failure(tmp_path: Path) -> None:
    """Claim of the contract: NaN never reaches the engine; plain Python raises, native gives 0."""
    policy = policy_of(tmp_path, "out.rate_bps = 1e308 * 10 * (ctx.rtt_ps - ctx.rtt_ps)\n")
    ctx, state, out = records(policy, rtt_ps=5)
    assert call_native(policy, ctx, state, out) == 0
    ctx, state, out = records(policy, rtt_ps=5)
    with pytest.raises(ValueError, match=r"ack left out.rate_bps = nan"):
        policy.call("ack", ctx, state, out)
    assert explain_failure(policy, "ack", ctx, state).line == HOOK_LINE


@pytest.mark.parametrize(
    "body",
    [
        "out.window_bytes = float('nan')",
        "out.window_bytes = 1e19",
        "out.timer_ps[1] = -ctx.rate_bps * 1e300 * 1e300",
        "out.window_bytes -= 1e300",
        "state.i = ctx.rate_bps * 1e300",
        "state.k = 1e19",
        "state.w[1] += 1e19",
        "x = int(ctx.rate_bps * 1e300)\nstate.i = x - x",
        "state.i = _helper(1e300, 0.0)",
    ],
)
def test_a_float_that_no_integer_holds_is_a_failure(tmp_path: Path, body: str) -> None:
    """Claim of docs/policies.md: a float that is nan, infinite or beyond 64 bits cannot be stored
    in an integer field, in native code (where a bare conversion is undefined) as in plain Python;
    the greatest that fits can, and 2^63 - 1 as an integer."""
    policy = policy_of(tmp_path, body)
    ctx, state, out = records(policy, rate_bps=4e11)
    assert call_native(policy, ctx, state, out) == 0
    if "int(" not in body:
        said = str(explain_failure(policy, "ack", ctx, state))
        assert "is no whole number of 64 bits" in said
    good = policy_of(
        tmp_path, "out.window_bytes = 2**63 - 1\nstate.i = -9.2e18\nstate.k = 2.0**31", "good.py"
    )
    ctx, state, out = records(good)
    assert call_native(good, ctx, state, out) == 1
    assert (out.window_bytes, state.i, state.k) == (2**63 - 1, int(-9.2e18), -(2**31))


def test_an_unexplained_failure_is_told_as_such(tmp_path: Path) -> None:
    """Claim: if plain Python does not fail, the error says so instead of blaming a line."""
    policy = policy_of(tmp_path, "state.i += 1\n")
    error = explain_failure(policy, "ack", *records(policy)[:2])
    assert "not when repeated as plain Python" in str(error)


NOT_COMPILED = {
    "text": ("state.i = 2\nstate.f = 'x' + 1\n", 2, "one operand is not a number"),
    "dict": ("x = {}\nstate.f = x[1]\n", 1, "empty lists and dicts have no type"),
    "two types": ("x = 1\nif ctx.marked:\n    x = 'a'\nstate.f = x\n", 4, "one type on every path"),
    "none": ("state.i = None\n", 1, "assign a number"),
    "module": ("state.f = np.savetxt('a', state.v)\n", 1, "only math and the functions of numpy"),
    "format": ("print(f'{ctx.now_ps:x}')\n", 1, "cannot be compiled; write it with numbers"),
    "a helper's": ("state.f = _helper('a', 1)\n", None, "one operand is not a number"),
}


@pytest.mark.parametrize(("body", "line", "hint"), NOT_COMPILED.values(), ids=NOT_COMPILED)
def test_what_cannot_be_compiled_is_told_at_its_line(
    tmp_path: Path, body: str, line: int | None, hint: str
) -> None:
    """Claim: the compiler's error names the user's file and line, and what to write instead."""
    policy = policy_of(tmp_path, body)
    with pytest.raises(PluginError) as caught:
        policy.addresses()
    error = caught.value
    assert error.file == str(policy.path)
    helper = HEAD.splitlines().index("    return SCALE * x") + 1
    assert error.line == (helper if line is None else HOOK_LINE + line)
    assert error.source in (HEAD + body)
    assert hint in str(error)
    assert str(error).count("\n") == 1


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "cache").rglob("*.nbc"))


def hits(policy: Policy) -> int:
    return sum(callback.cache_hits for callback in native.compile_hooks(policy).values())


def test_compiled_hooks_are_kept_on_disk(tmp_path: Path) -> None:
    """Claim: a second process finds the first one's code; a changed text or constant does not."""
    policy = policy_of(tmp_path, "state.f = _helper(1.0, 2.0)\n")
    assert hits(policy) == 0
    native._compile.cache_clear()
    assert hits(policy) == 1
    ctx, state, out = records(policy)
    assert call_native(policy, ctx, state, out) == 1
    assert state.f == 4.5
    file = policy.path
    file.write_text(file.read_text().replace("SCALE = 2.5", "SCALE = 3.5"))
    changed = load("congestion", file)
    assert hits(changed) == 0
    assert call_native(changed, ctx, state, out) == 1
    assert state.f == 5.5
    assert len(entries(tmp_path)) == 2


def test_the_cache_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim: EMUNET_CACHE=0 leaves nothing on disk."""
    monkeypatch.setenv("EMUNET_CACHE", "0")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    policy = policy_of(tmp_path, "state.i = 1\n")
    assert hits(policy) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py"]


def test_damaged_entries_are_compiled_again(tmp_path: Path) -> None:
    """Claim: what another program left in the cache does not stop a run."""
    policy = policy_of(tmp_path, "state.i = 41 + 1\n")
    policy.addresses()
    for damage in (b"", b"not a pickle"):
        for file in [*entries(tmp_path), *(tmp_path / "cache").rglob("*.nbi")]:
            file.write_bytes(damage)
        native._compile.cache_clear()
        ctx, state, out = records(policy)
        assert call_native(policy, ctx, state, out) == 1
        assert state.i == 42
        native._compile.cache_clear()
        policy.addresses()


@pytest.mark.parametrize("how", ["a file in the way", "open to all"])
def test_folders_that_cannot_be_trusted_are_not_used(tmp_path: Path, how: str) -> None:
    """Claim: without a folder that only the user can write, hooks are compiled and not kept."""
    cache = tmp_path / "cache"
    if how == "a file in the way":
        cache.write_text("x")
    else:
        (cache / "emunet-policies").mkdir(parents=True)
        (cache / "emunet-policies").chmod(0o777)
    policy = policy_of(tmp_path, "state.i = 7\n")
    ctx, state, out = records(policy)
    assert call_native(policy, ctx, state, out) == 1
    assert state.i == 7
    assert not cache.is_dir() or not entries(tmp_path)


def test_several_processes_compile_at_once(tmp_path: Path) -> None:
    """Claim: processes that start together with an empty cache all get working code."""
    policy = policy_of(tmp_path, "state.f = _helper(1.0, 2.0)\n")
    program = (
        "from emunet.plugin import load\n"
        f"print(len(load('congestion', {str(policy.path)!r}).addresses()))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, env=os.environ.copy()
        )
        for _ in range(3)
    ]
    assert [process.communicate()[0] for process in running] == [b"1\n"] * 3
    assert hits(policy) == 1


def test_old_entries_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim: the cache keeps the texts used last, up to a number, and touches nothing else."""
    from emunet.plugin import cache

    monkeypatch.setattr(cache, "ENTRIES_KEPT", 2)
    other = tmp_path / "cache" / "emunet-policies" / "other"
    other.mkdir(parents=True)
    other.parent.chmod(0o700)
    for k, key in enumerate("abcd"):
        file = cache.entry(key, "text")
        assert file is not None
        os.utime(file.parent, (k, k))
    assert sorted(path.name for path in other.parent.iterdir()) == ["c", "d", "other"]


def test_one_policy_with_two_parameter_values_is_compiled_once(tmp_path: Path) -> None:
    """Claim: parameters are data, so a sweep over them does not recompile."""
    policy = policy_of(tmp_path, "state.f = params.gain\n")
    again = load("congestion", policy.path, params={"gain": 0.75})
    assert again.addresses() == policy.addresses()
    ctx, state, out = records(again)
    assert call_native(again, ctx, state, out) == 1
    assert state.f == 0.75


def test_records_are_numpy_memory() -> None:
    """Claim: a Record shows and changes the array it was made on."""
    record = make_record(OUT)
    record.rate_bps = 3
    record.timer_ps[2] = -1
    assert record.array["rate_bps"][0] == 3.0
    assert record.array["timer_ps"][0].tolist() == [0, 0, -1, 0]
    assert type(record.rate_bps) is float
    assert type(record.window_bytes) is int
    assert np.frombuffer(record.tobytes(), OUT)["timer_ps"][0][2] == -1
    with pytest.raises(AttributeError):
        record.window = 3
