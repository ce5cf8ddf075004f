"""Small Plans built by hand, for tests of the engines that need no compiler of scenarios."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from emunet.plan.schema import (
    DYNAMIC,
    N_CLASS,
    NO_LIMIT,
    PATH_ECMP,
    RECOVERY_GBN,
    ROUTE_BLOCK,
    ROUTE_NONE,
    ROUTE_TABLE,
    TIES_DRAW,
    Plan,
    make_plan,
)

US = 1_000_000
GBPS = 10**9

DEFAULTS: dict[str, Any] = {
    "seed": 1,
    "ties": TIES_DRAW,
    "path": PATH_ECMP,
    "recovery": RECOVERY_GBN,
    "mtu_bytes": 4096,
    "ack_every": 1,
    "rto_ps": 4194 * US,
    "max_retries": 7,
    "sr_window_packets": 64,
    "sr_reorder_packets": 8,
    "linger_ps": 1000 * US,
    "cnp_interval_ps": 4 * US,
    "cnp_class": 6,
}
"""Scalars of the Plan unless a test says otherwise."""

FABRIC: dict[str, Any] = {
    "switch_latency_ps": 500_000,
    "nic_latency_ps": 300_000,
    "switch_pause_latency_ps": 300_000,
    "nic_pause_latency_ps": 300_000,
    "shared_bytes": 32_000_000,
    "alpha": 0.125,
    "reserved_bytes": 0,
    "cell_bytes": 1,
    "by_class": {},
    "headroom_pool_bytes": NO_LIMIT,
    "losses": {},
    "headroom_bytes": 400_000,
    "lossless_classes": (3,),
    "xon_offset_bytes": 3000,
    "watchdog_detect_ps": 0,
    "watchdog_restore_ps": 0,
    "watchdog_forward": 0,
    "kmin_bytes": NO_LIMIT,
    "kmax_bytes": NO_LIMIT,
    "pmax": 0.0,
    "class_of": range(N_CLASS),
    "mark_when": [0],
    "tmin_ps": NO_LIMIT,
    "tmax_ps": NO_LIMIT,
}
"""What all switches, NICs and ports have alike; `by_class` are arrays of the Plan, eight values
each, instead of what `alpha` and `lossless_classes` give; `losses` and `mark_when` are arrays of
ports, repeated as often as it takes."""


class Cable(NamedTuple):
    """Two nodes and what joins them."""

    a: int
    b: int
    rate_bps: int
    delay_ps: int


class Block(NamedTuple):
    """Arithmetic routes of a switch, as the Plan spells them."""

    host_lo: int
    host_hi: int
    block: int
    down_start: int
    down_par: int
    up_start: int
    up_count: int


class Policy:
    """A congestion policy of plain functions, as far as the twin looks at one."""

    def __init__(self, hooks: dict[str, Any], state_dtype: Any = (), params: Any = ()) -> None:
        self.hooks = hooks
        self.state_dtype = np.dtype(list(state_dtype), align=True)
        dtype = np.dtype([(name, "f8") for name, _ in params])
        self.params = np.array([tuple(value for _, value in params)], dtype).view(np.recarray)


def make_fabric(
    n_host: int,
    n_switch: int,
    cables: list[Cable],
    blocks: list[Block] | None = None,
    congestion: Any = None,
    **settings: Any,
) -> Plan:
    """Plan of any fabric: shortest paths by table, or the blocks given for its switches.

    Parameters
    ----------
    settings : keys of `DEFAULTS` and `FABRIC`
    """
    scalars = {**DEFAULTS, **{k: v for k, v in settings.items() if k in DEFAULTS}}
    fabric = {**FABRIC, **{k: v for k, v in settings.items() if k in FABRIC}}
    unknown = set(settings) - set(DEFAULTS) - set(FABRIC)
    assert not unknown, unknown
    n_node = n_host + n_switch
    arrays = _ports(n_host, n_node, cables, fabric)
    arrays.update(_routes(n_host, n_node, arrays, blocks))
    arrays.update(_switches(n_host, n_node, arrays, fabric))
    arrays.update(no_faults(n_node, 2 * len(cables)))
    params = getattr(congestion, "params", None)
    arrays["cc_params"] = np.frombuffer(params.tobytes() if params is not None else b"", np.uint8)
    peer = arrays["port_peer"]
    flight = [
        arrays["port_delay_ps"] + arrays[f"port_{kind}_latency_ps"][peer]
        for kind in ("rx", "pause")
    ]
    lookahead_ps = int(min(f.min() for f in flight))
    scalars.update(
        n_host=n_host,
        n_node=n_node,
        n_port=2 * len(cables),
        n_rack=n_host,
        lookahead_ps=lookahead_ps,
        linger_ps=max(scalars["linger_ps"], lookahead_ps),
        cc_name="none" if congestion is None else "test",
    )
    names = [f"host{i}" for i in range(n_host)] + [f"switch{i}" for i in range(n_switch)]
    return make_plan(arrays, scalars, names, congestion)


def no_faults(n_node: int, n_port: int) -> dict[str, Any]:
    """Links that are always up, and nodes that change nothing."""
    names = ("down_from_ps", "down_until_ps", "change_ps", "change_kind", "change_port")
    return {
        "port_down_start": np.zeros(n_port + 1, int),
        "node_change_start": np.zeros(n_node + 1, int),
        **dict.fromkeys((*names, "change_value"), np.zeros(0, int)),
    }


def _ports(n_host: int, n_node: int, cables: list[Cable], fabric: dict[str, Any]) -> dict[str, Any]:
    """Ports node by node, within a node in cable order."""
    ends = sorted((n, k, end) for k, c in enumerate(cables) for end, n in enumerate((c.a, c.b)))
    index = {(k, end): p for p, (_, k, end) in enumerate(ends)}
    node = np.array([n for n, _, _ in ends])
    own = [cables[k] for _, k, _ in ends]
    peer = np.array([index[k, 1 - end] for _, k, end in ends])
    is_host = node < n_host
    n_port = len(ends)
    return {
        "node_port_start": np.searchsorted(node, np.arange(n_node + 1)),
        "port_node": node,
        "port_peer": peer,
        "port_rate_bps": [c.rate_bps for c in own],
        "port_delay_ps": np.array([c.delay_ps for c in own]),
        "port_rx_latency_ps": np.where(
            is_host, fabric["nic_latency_ps"], fabric["switch_latency_ps"]
        ),
        "port_pause_latency_ps": np.where(
            is_host, fabric["nic_pause_latency_ps"], fabric["switch_pause_latency_ps"]
        ),
        "port_last_hop": ~is_host & is_host[peer],
        "port_ecn_when": np.resize(fabric["mark_when"], n_port),
        "port_ecn_tmin_ps": np.full(n_port, fabric["tmin_ps"]),
        "port_ecn_tmax_ps": np.full(n_port, fabric["tmax_ps"]),
        "port_ecn_kmin_bytes": np.full(n_port, fabric["kmin_bytes"]),
        "port_ecn_kmax_bytes": np.full(n_port, fabric["kmax_bytes"]),
        "port_ecn_pmax": np.full(n_port, fabric["pmax"]),
        "port_headroom_bytes": np.where(is_host, 0, fabric["headroom_bytes"]),
        "port_loss_start_ps": np.zeros(n_port),
        "port_loss_end_ps": np.zeros(n_port),
        "port_loss": np.zeros((n_port, 2)),
        "port_loss_change": np.zeros((n_port, 2)),
        "port_bit_error": np.zeros(n_port),
        **{k: np.resize(v, (n_port, *np.shape(v)[1:])) for k, v in fabric["losses"].items()},
    }


def _routes(
    n_host: int, n_node: int, arrays: dict[str, Any], blocks: list[Block] | None
) -> dict[str, Any]:
    """Blocks as given, otherwise one rack per host and all shortest paths."""
    start, node, peer = (
        np.asarray(arrays[k]) for k in ("node_port_start", "port_node", "port_peer")
    )
    kind = np.full(n_node, ROUTE_NONE)
    table_row = np.full(n_node, -1)
    block_fields = np.zeros((n_node, len(Block._fields)), int)
    block_fields[:, Block._fields.index("block")] = 1
    sets: list[tuple[int, ...]] = []
    route_set: list[int] = []
    if blocks is not None:
        kind[n_host:] = ROUTE_BLOCK
        block_fields[n_host:] = blocks
    else:
        distance = [_distances(dst, n_host, start, node, peer) for dst in range(n_host)]
        for n in range(n_node):
            if n < n_host and start[n + 1] - start[n] == 1:
                continue
            kind[n] = ROUTE_TABLE
            table_row[n] = len(route_set)
            for dst in range(n_host):
                hops = tuple(
                    p - int(start[n])
                    for p in range(start[n], start[n + 1])
                    if distance[dst][node[peer[p]]] < distance[dst][n]
                )
                if hops and hops not in sets:
                    sets.append(hops)
                route_set.append(sets.index(hops) if hops else -1)
    names = ("host_lo", "host_hi", "block", "down_start", "down_par", "up_start", "up_count")
    return {
        "node_route_kind": kind,
        **{f"node_{name}": block_fields[:, i] for i, name in enumerate(names)},
        "node_table_row": table_row,
        "host_rack": np.arange(n_host),
        "route_set": np.array(route_set, int),
        "set_start": np.cumsum([0] + [len(s) for s in sets]),
        "set_port": np.array([p for s in sets for p in s], int),
    }


def _distances(
    dst: int, n_host: int, start: np.ndarray, node: np.ndarray, peer: np.ndarray
) -> dict[int, int]:
    """Hops from every node to a host; other hosts do not forward."""
    distance = {dst: 0}
    todo = deque([dst])
    while todo:
        n = todo.popleft()
        for p in range(start[n], start[n + 1]):
            m = int(node[peer[p]])
            if m not in distance:
                distance[m] = distance[n] + 1
                if m >= n_host:
                    todo.append(m)
    return distance


def _switches(
    n_host: int, n_node: int, arrays: dict[str, Any], fabric: dict[str, Any]
) -> dict[str, Any]:
    n_switch = n_node - n_host
    n_port = np.diff(arrays["node_port_start"])[n_host:]
    carved = n_port * (
        N_CLASS * fabric["reserved_bytes"]
        + len(fabric["lossless_classes"]) * fabric["headroom_bytes"]
    )
    lossless = np.tile(np.isin(np.arange(N_CLASS), fabric["lossless_classes"]), (n_switch, 1))
    return {
        "switch_buffer_bytes": fabric["shared_bytes"] + carved,
        "switch_class_of": np.tile(fabric["class_of"], (n_switch, 1)),
        "switch_shared_bytes": np.full(n_switch, fabric["shared_bytes"]),
        "switch_headroom_bytes": np.minimum(
            n_port * len(fabric["lossless_classes"]) * fabric["headroom_bytes"],
            fabric["headroom_pool_bytes"],
        ),
        "switch_cell_bytes": np.full(n_switch, fabric["cell_bytes"]),
        "switch_quantum_bytes": np.zeros((n_switch, N_CLASS)),
        "switch_group_alpha": np.where(lossless, fabric["alpha"], 0.0),
        "switch_group_limit_bytes": np.where(lossless, DYNAMIC, NO_LIMIT),
        "switch_queue_alpha": np.where(lossless, 0.0, fabric["alpha"]),
        "switch_queue_limit_bytes": np.where(lossless, NO_LIMIT, DYNAMIC),
        "switch_reserved_bytes": np.full((n_switch, N_CLASS), fabric["reserved_bytes"]),
        "switch_lossless": np.full(n_switch, sum(1 << c for c in fabric["lossless_classes"])),
        "switch_xon_offset_bytes": np.full(n_switch, fabric["xon_offset_bytes"]),
        "switch_watchdog_detect_ps": np.full(n_switch, fabric["watchdog_detect_ps"]),
        "switch_watchdog_restore_ps": np.full(n_switch, fabric["watchdog_restore_ps"]),
        "switch_watchdog_forward": np.full(n_switch, fabric["watchdog_forward"]),
        **{name: np.tile(row, (n_switch, 1)) for name, row in fabric["by_class"].items()},
    }


def star(rates_bps: list[int], delay_ps: int = US, **settings: Any) -> Plan:
    """Hosts around one switch, with block routes; one rate for each host's cable."""
    n = len(rates_bps)
    cables = [Cable(h, n, rate, delay_ps) for h, rate in enumerate(rates_bps)]
    return make_fabric(n, 1, cables, [Block(0, n, 1, 0, 1, 0, 0)], **settings)


def line(
    n_left: int,
    n_right: int,
    trunks: list[tuple[int, int]],
    rate_bps: int = 400 * GBPS,
    delay_ps: int = US,
    **settings: Any,
) -> Plan:
    """Hosts at two switches, joined by parallel trunks (rate, delay), with block routes."""
    n = n_left + n_right
    cables = [Cable(h, n if h < n_left else n + 1, rate_bps, delay_ps) for h in range(n)]
    cables += [Cable(n, n + 1, *trunk) for trunk in trunks]
    blocks = [
        Block(0, n_left, 1, 0, 1, n_left, len(trunks)),
        Block(n_left, n, 1, 0, 1, n_right, len(trunks)),
    ]
    return make_fabric(n, 2, cables, blocks, **settings)


def leaf_spine(
    n_leaf: int,
    n_spine: int,
    hosts_per_leaf: int,
    parallel: int = 1,
    rate_bps: int = 400 * GBPS,
    up_rate_bps: int = 400 * GBPS,
    delay_ps: int = US,
    **settings: Any,
) -> Plan:
    """Two tiers with table routes."""
    n = n_leaf * hosts_per_leaf
    cables = [Cable(h, n + h // hosts_per_leaf, rate_bps, delay_ps) for h in range(n)]
    cables += [
        Cable(n + leaf, n + n_leaf + spine, up_rate_bps, delay_ps)
        for leaf in range(n_leaf)
        for spine in range(n_spine)
        for _ in range(parallel)
    ]
    return make_fabric(n, n_leaf + n_spine, cables, None, **settings)


def ring(n: int, rate_bps: int = 100 * GBPS, delay_ps: int = 50_000, **settings: Any) -> Plan:
    """Switches in a circle with one host each; with an odd number every shortest path is unique."""
    cables = [Cable(h, n + h, rate_bps, delay_ps) for h in range(n)]
    cables += [Cable(n + s, n + (s + 1) % n, rate_bps, delay_ps) for s in range(n)]
    return make_fabric(n, n, cables, None, **settings)


class Message(NamedTuple):
    """One message, as `Engine.submit` takes them column by column."""

    src: int
    dst: int
    size_bytes: int
    start_ps: int = 0
    klass: int = 3
    base_rtt_ps: int = 6 * US


def submit(engine: Any, messages: list[Message], first_id: int = 0) -> None:
    """Hand messages to an engine, numbered in order."""
    dtypes = {
        "src": "i4",
        "dst": "i4",
        "size_bytes": "i8",
        "start_ps": "i8",
        "klass": "u1",
        "base_rtt_ps": "i8",
    }
    columns = [
        np.array([getattr(m, name) for m in messages], dtype) for name, dtype in dtypes.items()
    ]
    engine.submit(np.arange(first_id, first_id + len(messages), dtype=np.int64), *columns)
