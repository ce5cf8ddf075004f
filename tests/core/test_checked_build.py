"""The build with assertions is another build, it does check, and it computes the same."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pytest
from support.fabric import altered, chain, plan_of, spokes
from support.mix import MIXES, run_mix
from support.oracle import GBPS, US
from support.run import FOREVER, Message, run, submit

from emunet._core import CHECKED_VARIABLE, is_checked, load_engine
from emunet._core import rows as R
from emunet.errors import EngineError
from emunet.plan.schema import ROUTE_BLOCK, ROUTE_TABLE, Plan
from emunet.topology.star import star


def builds() -> list[Any]:
    """The normal and the checked `Engine`."""
    names = ("engine", "engine_checked")
    return [importlib.import_module(f"emunet._core.{name}").Engine for name in names]


@pytest.mark.parametrize(
    ("value", "checked"), [(None, False), ("", False), ("0", False), ("1", True), ("yes", True)]
)
def test_the_environment_chooses_the_build(
    monkeypatch: pytest.MonkeyPatch, value: str | None, checked: bool
) -> None:
    """Docstring of `is_checked`: EMUNET_CHECKED=1, or any value but 0, asks for this build."""
    if value is None:
        monkeypatch.delenv(CHECKED_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(CHECKED_VARIABLE, value)
    assert is_checked() == checked
    name = "engine_checked" if checked else "engine"
    assert load_engine().__module__ == f"emunet._core.{name}"
    assert load_engine() is builds()[checked]


def test_the_builds_are_two() -> None:
    """Setup: two extension modules of two files, from one source."""
    normal, checked = builds()
    assert normal is not checked
    files = {sys.modules[engine.__module__].__file__ for engine in (normal, checked)}
    assert len(files) == 2 and None not in files


def test_a_missing_build_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Docstring of `load_engine`: EngineError with the way out, not an ImportError."""
    monkeypatch.delenv(CHECKED_VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "emunet._core.engine", None)
    with pytest.raises(EngineError, match=r"pip install -e .*--twin"):
        load_engine()


def too_long_windows() -> Plan:
    """A plan that lies about its lookahead: packets arrive within the window of their sending."""
    plan = plan_of(spokes([400 * GBPS] * 2, 100_000))
    return altered(plan, lookahead_ps=100 * plan.lookahead_ps)


def no_route() -> Plan:
    """A plan whose switch knows host 0 only and has no port upwards."""
    plan = plan_of(star(2, 400 * GBPS, US))
    assert plan.node_route_kind[2] == ROUTE_BLOCK and plan.node_up_count[2] == 0
    # so that the normal build, which takes its first port for one, stays inside the switch
    return altered(plan, node_host_hi=np.array([0, 0, 1]), node_up_start=np.zeros(3, int))


def nowhere() -> Plan:
    """A plan whose switch has neither a port upwards nor one that could be taken for it."""
    return altered(no_route(), node_up_start=np.array([0, 0, 1 << 30]))


def no_next_hop() -> Plan:
    """A plan whose table names no next hops of any rack."""
    plan = plan_of(chain([400 * GBPS] * 3))
    assert (plan.node_route_kind == ROUTE_TABLE).any()
    return altered(plan, route_set=np.full_like(plan.route_set, -1))


LIES = {
    "a packet due in the window in which it was sent": too_long_windows,
    "no route to a destination": no_route,
}


@pytest.mark.parametrize(("said", "plan"), LIES.items(), ids=LIES)
def test_the_checked_build_finds_what_cannot_be(said: str, plan: Any) -> None:
    """Docstring of `run`: an audit of the checked build that fails is an EngineError with its name.

    The normal build trusts the plan, so it does not notice; that is why the checked one exists.
    """
    normal, checked = builds()
    engine = checked(plan())
    submit(engine, [Message(0, 1, 50_000)])
    with pytest.raises(EngineError, match=f"broken audit: {said} in the window before") as caught:
        engine.run(FOREVER)
    assert f"{engine.now_ps} ps" in str(caught.value)
    blind = normal(plan())
    submit(blind, [Message(0, 1, 50_000)])
    assert blind.run(100 * US) in (R.DONE, R.UNTIL, R.STUCK)


@pytest.mark.parametrize("plan", [nowhere, no_next_hop])
def test_the_checked_build_does_not_take_a_route_that_is_none(plan: Any) -> None:
    """Docstring of `route_port`: the checked build goes on to the window's end without the port
    that it has found wrong."""
    engine = builds()[1](plan())
    submit(engine, [Message(0, 1, 50_000)])
    with pytest.raises(EngineError, match="broken audit: no route to a destination"):
        engine.run(FOREVER)


@pytest.mark.parametrize("name", MIXES)
def test_both_builds_compute_the_same(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Setup: assertions are all that differs, so every digest is the same."""
    found = []
    for value in ("0", "1"):
        monkeypatch.setenv(CHECKED_VARIABLE, value)
        found.append(run_mix(name))
    assert found[0] == found[1]


def test_a_saved_state_passes_between_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setup: both builds have the same structs, so either takes up what the other has saved."""
    plan = plan_of(spokes([400 * GBPS] * 3))
    messages = [Message(0, 2, 300_000), Message(1, 2, 300_000)]
    whole = run(plan, messages, log=False)
    for first, second in (builds(), builds()[::-1]):
        engine = first(plan)
        submit(engine, messages)
        engine.run(5 * US)
        engine.drain()
        other = second.restore(plan, engine.save())
        assert other.run(FOREVER) == R.DONE
        assert other.drain()["flows"].tobytes() == whole.flows.tobytes()
        assert other.totals() == whole.totals
