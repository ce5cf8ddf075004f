"""Watermarks as switches keep them, each next to the thresholds that it should be compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from emunet._core import rows
from emunet.errors import NO_VALUE, InputFileError, UsageError, did_you_mean
from emunet.plan.schema import N_CLASS, NO_LIMIT, Plan
from emunet.trace.tables import Tables

SHARED, HEADROOM = "shared", "headroom"
"""`kind` of a priority group's bytes, `pool` of a switch's."""

_KIND = {
    rows.PG_SHARED: SHARED, rows.PG_HEADROOM: HEADROOM,
    rows.POOL_SHARED: SHARED, rows.POOL_HEADROOM: HEADROOM,
}  # fmt: skip

Entry = dict[str, Any]


def watermarks(run: Tables, device: str | None = None, idle: bool = False) -> dict[str, Any]:
    """Watermarks of queues, priority groups and pools; every value can be written as JSON.

    Parameters
    ----------
    run : Tables
        A run whose counters were stored.
    device : str, optional
        Name of the only switch wanted.
    idle : bool
        Also objects that never held a byte: every class that the run used, at every port.

    Returns
    -------
    dict
        ``queues``: a list of ``{device, port, class, port_role, peer, user, persistent, periodic,
        max, p99, mean, lossless, ecn_kmin, ecn_kmax, threshold}``; ``priority_groups``: the same
        with ``kind`` ("shared" or "headroom"), ``xoff``, ``limit`` and ``xoffs`` instead of the
        last three; ``pools``: ``{device, pool, user, ..., mean, size}``. Values are bytes, None
        where they are not known or do not apply. `max` is since the start; `periodic` of the last
        interval that ended before the end of the run, or, if none did, of the one under way, which
        began at the start. `threshold` (where a queue drops) and `xoff` are those of a queue or
        group alone in its buffer: ``reserved + alpha / (1 + alpha) * shared``, or static; others in
        the buffer lower dynamic ones. `xoffs` counts XOFF decisions, refreshes left out.

        Besides: ``simulated_ps``, ``sample_every_ps``, ``periodic_every_ps``,
        ``periodic_end_ps``, ``user_cleared_ps``, ``persistent_cleared_ps`` (the last clear), and
        ``pause_frames``.

    Raises
    ------
    InputFileError
        The trace has no watermarks.
    UsageError
        There is no switch of that name.
    """
    table = _Table(run)
    wanted = table.switch(device) if device is not None else None
    found: dict[str, list[Entry]] = {"queues": [], "priority_groups": [], "pools": []}
    for row in table.rows(idle):
        if wanted is None or row["node"] == wanted:
            found[table.list_of(row)].append(table.entry(row))
    return {**table.facts(), **found}


class _Table:
    """The table of a trace, with what else is known of each object."""

    def __init__(self, run: Tables) -> None:
        self.run, self.plan = run, run.plan
        if "object" not in run.source.datasets("watermarks"):
            said = "has no watermarks: the run was broken off, or an earlier emunet wrote it"
            raise InputFileError(run.name, 0, 0, NO_VALUE, said, "run the scenario again")
        self.columns = run.columns("watermarks")
        run.check_values("watermarks", self.columns)
        self.end_ps = int(run.meta["engine"]["now_ps"])
        self.attributes = run.source.attributes("watermarks")
        self.every_ps = run.source.attributes("samples/periodic").get("every_ps")
        self.interval_end_ps = self._interval_end_ps()
        self.periodic = self._last_interval()
        self.roles = run.port_roles
        self.xoffs = self._xoffs()

    def switch(self, name: str) -> int:
        """Node number of a switch."""
        switches = self.plan.names[self.plan.n_host :]
        if name in switches:
            return self.plan.n_host + switches.index(name)
        hint = did_you_mean(name, switches)
        raise UsageError(f'there is no switch "{name}" in this run; {hint}'.rstrip("; "))

    def facts(self) -> dict[str, Any]:
        """What holds for the whole run."""
        return {
            "simulated_ps": self.end_ps,
            "sample_every_ps": self.attributes["every_ps"] or None,
            "periodic_every_ps": self.every_ps,
            "periodic_end_ps": self.interval_end_ps,
            "user_cleared_ps": self.attributes["user_cleared_ps"] or None,
            "persistent_cleared_ps": self.attributes["persistent_cleared_ps"] or None,
            "pause_frames": self.run.totals["pause_frames"],
        }

    def rows(self, idle: bool) -> Iterator[dict[str, Any]]:
        """Rows of the table; with `idle` also those of objects that never held a byte."""
        names = list(self.columns)
        held = {}
        for values in zip(*(self.columns[name].tolist() for name in names), strict=True):
            row = dict(zip(names, values, strict=True))
            held[self._key(row)] = row
        yield from held.values()
        if not idle:
            return
        sampled = 0 if self.attributes["every_ps"] else -1
        nothing = dict.fromkeys(("watermark_bytes", "user_bytes", "persistent_bytes"), 0)
        for key in self._objects():
            if key not in held:
                place = dict(zip(rows.WATERMARK_ORDER, key, strict=True))
                yield {**place, **nothing, "p99_bytes": sampled, "byte_ps": 0.0}

    def list_of(self, row: dict[str, Any]) -> str:
        """Which list an object belongs to."""
        if row["port"] < 0:
            return "pools"
        return "queues" if row["object"] == rows.QUEUE else "priority_groups"

    def entry(self, row: dict[str, Any]) -> Entry:
        """What is said of one object."""
        plan, what, port = self.plan, row["object"], row["port"]
        entry: Entry = {"device": plan.names[row["node"]]}
        if port < 0:
            entry["pool"] = _KIND[what]
        else:
            local = port - int(plan.node_port_start[row["node"]])
            entry |= {"port": local, "class": row["klass"], "port_role": str(self.roles[port])}
            entry["peer"] = plan.names[int(plan.port_node[plan.port_peer[port]])]
            if what != rows.QUEUE:
                entry["kind"] = _KIND[what]
        entry |= {"user": row["user_bytes"], "persistent": row["persistent_bytes"]}
        entry["periodic"] = row["watermark_bytes"]
        if self.interval_end_ps is not None:
            entry["periodic"] = self.periodic.get(self._key(row), 0)
        entry["max"] = row["watermark_bytes"]
        entry["p99"] = row["p99_bytes"] if row["p99_bytes"] >= 0 else None
        mean = row["byte_ps"] / max(self.end_ps, 1)
        entry["mean"] = mean if row["byte_ps"] >= 0 else None
        return entry | self._thresholds(row)

    # helpers

    @staticmethod
    def _key(row: dict[str, Any]) -> tuple[int, ...]:
        return tuple(row[name] for name in rows.WATERMARK_ORDER)

    def _objects(self) -> Iterator[tuple[int, ...]]:
        """Every object of the classes that the run used."""
        plan = self.plan
        classes = sorted(set(self.columns["klass"].tolist()) - {-1})
        for port in np.flatnonzero(plan.port_node >= plan.n_host).tolist():
            node = int(plan.port_node[port])
            for klass in classes:
                kinds = [rows.QUEUE, rows.PG_SHARED]
                kinds += [rows.PG_HEADROOM] * _lossless(plan, node, klass)
                yield from ((what, node, port, klass) for what in kinds)
        for node in range(plan.n_host, plan.n_node):
            yield rows.POOL_SHARED, node, -1, -1
            yield rows.POOL_HEADROOM, node, -1, -1

    def _thresholds(self, row: dict[str, Any]) -> Entry:
        plan, what, port, klass = self.plan, row["object"], row["port"], row["klass"]
        switch = row["node"] - plan.n_host
        if what == rows.POOL_SHARED:
            return {"size": int(plan.switch_shared_bytes[switch])}
        if what == rows.POOL_HEADROOM:
            return {"size": int(plan.switch_headroom_bytes[switch])}
        lossless = _lossless(plan, row["node"], klass)
        if what == rows.QUEUE:
            kmin, kmax = int(plan.port_ecn_kmin_bytes[port]), int(plan.port_ecn_kmax_bytes[port])
            marks = kmin != NO_LIMIT
            return {
                "lossless": lossless,
                "ecn_kmin": kmin if marks else None,
                "ecn_kmax": kmax if marks else None,
                "threshold": _alone(plan, "queue", switch, klass),
            }
        bounded = lossless and what == rows.PG_SHARED
        return {
            "lossless": lossless,
            "xoff": _alone(plan, "group", switch, klass) if bounded else None,
            "limit": int(plan.port_headroom_bytes[port]) if what == rows.PG_HEADROOM else None,
            "xoffs": None if self.xoffs is None else self.xoffs.get((port, klass), 0),
        }

    def _interval_end_ps(self) -> int | None:
        """End of the last interval that ended before the run did."""
        if not self.every_ps or self.end_ps <= self.every_ps:
            return None
        return (self.end_ps - 1) // int(self.every_ps) * int(self.every_ps)

    def _last_interval(self) -> dict[tuple[int, ...], int]:
        """Maxima of the last complete interval by object; those not listed are 0."""
        if self.interval_end_ps is None:
            return {}
        c = self.run.columns("samples/periodic")
        mine = c["time_ps"] == self.interval_end_ps
        keys = zip(*(c[name][mine].tolist() for name in rows.WATERMARK_ORDER), strict=True)
        return dict(zip(keys, c["watermark_bytes"][mine].tolist(), strict=True))

    def _xoffs(self) -> dict[tuple[int, int], int] | None:
        """XOFF decisions by port and class; None if they were not recorded."""
        if not self.run.source.datasets("pfc"):
            return None
        c = self.run.columns("pfc")
        key = c["port"][c["on"] == 1].astype(np.int64) * N_CLASS + c["klass"][c["on"] == 1]
        counted = zip(*np.unique(key, return_counts=True), strict=True)
        return {(int(k) // N_CLASS, int(k) % N_CLASS): int(n) for k, n in counted}


def _lossless(plan: Plan, node: int, klass: int) -> bool:
    return bool(int(plan.switch_lossless[node - plan.n_host]) >> klass & 1)


def _alone(plan: Plan, kind: str, switch: int, klass: int) -> int | None:
    """Threshold of a queue or group alone in its buffer, what is reserved included; None: none."""
    static = int(plan.arrays[f"switch_{kind}_limit_bytes"][switch, klass])
    alpha = float(plan.arrays[f"switch_{kind}_alpha"][switch, klass])
    shared = int(plan.switch_shared_bytes[switch])
    if static == NO_LIMIT:
        return None
    most = min(static, shared) if static >= 0 else int(alpha / (1 + alpha) * float(shared))
    return int(plan.switch_reserved_bytes[switch, klass]) + most


def fullest(entries: list[Entry], limit: Callable[[Entry], int | None]) -> Entry | None:
    """The entry whose maximum is the greatest part of its limit; None if no limit applies."""
    bounded = [entry for entry in entries if limit(entry)]
    return max(bounded, key=lambda entry: entry["max"] / (limit(entry) or 1), default=None)
