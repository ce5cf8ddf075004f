"""Every array of the Plan, once: name, dtype, shape, unit, meaning.

The Plan is what the engine runs: frozen flat arrays for fabric and policies (the workload is not in
it: messages reach the engine through ``Engine.submit``). Both engines read it, the trace stores it,
and `Plan.digest` names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

N_CLASS = 8
"""Priority classes on every port (IEEE 802.1Q)."""

NO_LIMIT = np.iinfo(np.int64).max
"""Sentinel of byte thresholds that never apply (marking switched off, unlimited window)."""

DYNAMIC = -1
"""Sentinel of static thresholds: the dynamic one applies."""

ROUTE_NONE, ROUTE_BLOCK, ROUTE_TABLE = 0, 1, 2
"""`node_route_kind`: a host with one port; arithmetic on the host number; a row of next-hop sets,
one per destination rack."""

ROUTE_UNREACHABLE, ROUTE_LOCAL = -1, -2
"""Entries of `route_set` that are no set: packets never come here; the host hangs on this node with
its only cable, so the one candidate is ``port_peer[node_port_start[dst]] - node_port_start[node]``.
"""

CHANGE_ROUTE, CHANGE_UP, CHANGE_DOWN, CHANGE_RATE = range(4)
"""`change_kind`: the node routes by another row of `route_set`; a port is known to work again; is
known to be down, and what waits there is dropped; has another rate."""

MARK_WHEN = ("dequeue", "enqueue", "sojourn")
"""`port_ecn_when`."""

PATH_ECMP, PATH_SPRAY = 0, 1
RECOVERY_GBN, RECOVERY_SR = 0, 1
TIES_DRAW, TIES_PORT = 0, 1


@dataclass(frozen=True)
class ArraySpec:
    """One array of the Plan."""

    name: str
    dtype: str
    shape: tuple[str | int, ...]
    unit: str
    meaning: str


@dataclass(frozen=True)
class ScalarSpec:
    """One number of the Plan."""

    name: str
    kind: type
    unit: str
    meaning: str


ARRAYS: tuple[ArraySpec, ...] = (
    # nodes: hosts 0 .. n_host-1, then switches
    ArraySpec("node_port_start", "int32", ("n_node + 1",), "",
              "first port of each node; the last entry is n_port"),
    ArraySpec("node_route_kind", "uint8", ("n_node",), "",
              "0 none (host with one port), 1 block, 2 table"),
    ArraySpec("node_host_lo", "int32", ("n_node",), "",
              "block: first host below the node"),
    ArraySpec("node_host_hi", "int32", ("n_node",), "",
              "block: end (exclusive) of the hosts below the node"),
    ArraySpec("node_block", "int32", ("n_node",), "",
              "block: hosts behind each group of down ports (>= 1)"),
    ArraySpec("node_down_start", "int32", ("n_node",), "",
              "block: local index of the first down port"),
    ArraySpec("node_down_par", "int32", ("n_node",), "",
              "block: parallel ports to each child (>= 1)"),
    ArraySpec("node_up_start", "int32", ("n_node",), "",
              "block: local index of the first up port"),
    ArraySpec("node_up_count", "int32", ("n_node",), "",
              "block: number of up ports; 0 at the top"),
    ArraySpec("node_table_row", "int64", ("n_node",), "",
              "table: offset of the node's row in `route_set`; -1 otherwise"),
    ArraySpec("host_rack", "int32", ("n_host",), "",
              "table: destination rack of each host"),
    ArraySpec("route_set", "int32", ("n_table * n_rack",), "",
              "table: next-hop set by row and rack; -1: unreachable; -2: local"),
    ArraySpec("set_start", "int32", ("n_set + 1",), "",
              "first entry of each next-hop set in `set_port`"),
    ArraySpec("set_port", "int32", ("n_set_port",), "",
              "local port indices of the next-hop sets, ascending"),
    # ports, numbered node by node; the link out of port p ends at port_peer[p]
    ArraySpec("port_node", "int32", ("n_port",), "",
              "node that owns the port"),
    ArraySpec("port_peer", "int32", ("n_port",), "",
              "port at the other end of the cable"),
    ArraySpec("port_rate_bps", "int64", ("n_port",), "bit/s",
              "rate of the outgoing link"),
    ArraySpec("port_delay_ps", "int64", ("n_port",), "ps",
              "propagation of the outgoing link"),
    ArraySpec("port_rx_latency_ps", "int64", ("n_port",), "ps",
              "fixed latency of packets arriving at this port"),
    ArraySpec("port_pause_latency_ps", "int64", ("n_port",), "ps",
              "fixed latency of pause frames arriving at this port"),
    ArraySpec("port_last_hop", "uint8", ("n_port",), "",
              "1: switch port whose peer is a host"),
    ArraySpec("port_ecn_when", "uint8", ("n_port",), "",
              "0 marked by the queue's bytes at departure, 1 at arrival, 2 by the time waited"),
    ArraySpec("port_ecn_kmin_bytes", "int64", ("n_port",), "bytes",
              "marking starts above this; NO_LIMIT: never"),
    ArraySpec("port_ecn_kmax_bytes", "int64", ("n_port",), "bytes",
              "marking is certain above this"),
    ArraySpec("port_ecn_tmin_ps", "int64", ("n_port",), "ps",
              "by time: marking starts above this; NO_LIMIT: never"),
    ArraySpec("port_ecn_tmax_ps", "int64", ("n_port",), "ps",
              "by time: marking is certain above this"),
    ArraySpec("port_ecn_pmax", "float64", ("n_port",), "",
              "marking probability at kmax or tmax"),
    ArraySpec("port_headroom_bytes", "int64", ("n_port",), "bytes",
              "headroom of each lossless group of the in-port"),
    # what the link out of a port loses
    ArraySpec("port_loss_start_ps", "int64", ("n_port",), "ps",
              "frames that start before are safe"),
    ArraySpec("port_loss_end_ps", "int64", ("n_port",), "ps",
              "frames that start then or later are safe; 0: all are"),
    ArraySpec("port_loss", "float64", ("n_port", 2), "",
              "probability that a frame is lost in the good state, in the bad one"),
    ArraySpec("port_loss_change", "float64", ("n_port", 2), "",
              "probability that the state changes after a frame: from good, from bad"),
    ArraySpec("port_bit_error", "float64", ("n_port",), "",
              "probability of each bit of a frame to be wrong, which loses it"),
    # when the link out of a port is down, and what its node and others do about it
    ArraySpec("port_down_start", "int32", ("n_port + 1",), "",
              "first entry of each port in `down_from_ps`; the last entry is n_down"),
    ArraySpec("down_from_ps", "int64", ("n_down",), "ps",
              "from then on the link carries nothing, by port ascending"),
    ArraySpec("down_until_ps", "int64", ("n_down",), "ps",
              "from then on it carries frames again; NO_LIMIT: never"),
    ArraySpec("node_change_start", "int32", ("n_node + 1",), "",
              "first entry of each node in `change_ps`; the last entry is n_change"),
    ArraySpec("change_ps", "int64", ("n_change",), "ps",
              "when a node changes something, by node ascending"),
    ArraySpec("change_kind", "uint8", ("n_change",), "",
              "0 routes, 1 a port is up again, 2 a port is down, 3 rate of a port"),
    ArraySpec("change_port", "int32", ("n_change",), "",
              "local port; -1: none"),
    ArraySpec("change_value", "int64", ("n_change",), "",
              "routes: offset of the row in `route_set`; rate: bit/s"),
    # switches, indexed by node - n_host
    ArraySpec("switch_buffer_bytes", "int64", ("n_switch",), "bytes",
              "whole packet buffer"),
    ArraySpec("switch_shared_bytes", "int64", ("n_switch",), "bytes",
              "buffer less reserved and headroom of all groups"),
    ArraySpec("switch_headroom_bytes", "int64", ("n_switch",), "bytes",
              "headroom of all groups together"),
    ArraySpec("switch_cell_bytes", "int64", ("n_switch",), "bytes",
              "buffer is taken in whole cells; 1: exact bytes"),
    ArraySpec("switch_group_alpha", "float64", ("n_switch", N_CLASS), "",
              "dynamic threshold factor of an (in-port, class)"),
    ArraySpec("switch_group_limit_bytes", "int64", ("n_switch", N_CLASS), "bytes",
              "static threshold of an (in-port, class); -1: dynamic; NO_LIMIT: none"),
    ArraySpec("switch_queue_alpha", "float64", ("n_switch", N_CLASS), "",
              "dynamic threshold factor of an (out-port, class)"),
    ArraySpec("switch_queue_limit_bytes", "int64", ("n_switch", N_CLASS), "bytes",
              "static threshold of an (out-port, class); -1: dynamic; NO_LIMIT: none"),
    ArraySpec("switch_quantum_bytes", "int64", ("n_switch", N_CLASS), "bytes",
              "link bytes a turn of a class served by DWRR; 0: strict priority"),
    ArraySpec("switch_reserved_bytes", "int64", ("n_switch", N_CLASS), "bytes",
              "reserved for each (in-port, class)"),
    ArraySpec("switch_lossless", "uint8", ("n_switch",), "",
              "bit c set: class c is lossless (PFC)"),
    ArraySpec("switch_class_of", "uint8", ("n_switch", N_CLASS), "",
              "class here of the packets of each class of the hosts"),
    ArraySpec("switch_xon_offset_bytes", "int64", ("n_switch",), "bytes",
              "XON when shared + this <= threshold"),
    ArraySpec("switch_watchdog_detect_ps", "int64", ("n_switch",), "ps",
              "PFC watchdog: a pause of this length is a storm; 0: no watchdog"),
    ArraySpec("switch_watchdog_restore_ps", "int64", ("n_switch",), "ps",
              "a storm ends so long after the last XOFF"),
    ArraySpec("switch_watchdog_forward", "uint8", ("n_switch",), "",
              "in a storm: 1 pauses are ignored, 0 packets are dropped"),
    # congestion control parameters, one record of the policy's dtype, as bytes
    ArraySpec("cc_params", "uint8", ("n_cc_param_byte",), "",
              "packed parameter record of the congestion policy"),
)

SCALARS: tuple[ScalarSpec, ...] = (
    ScalarSpec("n_host", int, "",
               "hosts"),
    ScalarSpec("n_node", int, "",
               "hosts and switches"),
    ScalarSpec("n_port", int, "",
               "ports of all nodes"),
    ScalarSpec("n_rack", int, "",
               "destination racks of the route tables"),
    ScalarSpec("seed", int, "",
               "seed of every draw"),
    ScalarSpec("ties", int, "",
               "0 by draw, 1 by port index"),
    ScalarSpec("path", int, "",
               "0 ecmp, 1 spray"),
    ScalarSpec("recovery", int, "",
               "0 go-back-N, 1 selective repeat"),
    ScalarSpec("mtu_bytes", int, "bytes",
               "payload of a full packet"),
    ScalarSpec("ack_every", int, "packets",
               "ACK after this many packets; the last is always acknowledged"),
    ScalarSpec("rto_ps", int, "ps",
               "retransmission timeout"),
    ScalarSpec("max_retries", int, "",
               "timeouts without progress before a flow fails"),
    ScalarSpec("sr_window_packets", int, "packets",
               "W: receive bitmap and send window of `sr`; a power of two to 32768"),
    ScalarSpec("sr_reorder_packets", int, "packets",
               "reordering tolerated before `sr` calls a packet lost"),
    ScalarSpec("linger_ps", int, "ps",
               "life of a receiver half after its sender is done; at least `lookahead_ps`"),
    ScalarSpec("cnp_interval_ps", int, "ps",
               "least time between CNPs of one connection"),
    ScalarSpec("cnp_class", int, "",
               "priority class of CNPs"),
    ScalarSpec("lookahead_ps", int, "ps",
               "L: the least delay with which one node can act on another"),
    ScalarSpec("cc_name", str, "",
               "congestion policy"),
)


@dataclass(frozen=True)
class Plan:
    """The compiled, immutable fabric that an engine runs.

    Attributes
    ----------
    arrays : mapping of str to numpy.ndarray
        One entry per `ARRAYS`, C-contiguous, read-only.
    scalars : mapping of str to int or str
        One entry per `SCALARS`.
    names : list of str
        Node names, hosts first.
    congestion : emunet.plugin.Policy or None
        The compiled congestion policy; not part of the digest beyond its name, parameters and
        source digest.
    congestion_digest : str
        Digest of the policy's source text.
    """

    arrays: Mapping[str, np.ndarray]
    scalars: Mapping[str, int | str]
    names: list[str]
    congestion: object | None = field(default=None, compare=False)
    congestion_digest: str = ""

    def __getattr__(self, name: str) -> Any:
        arrays = object.__getattribute__(self, "arrays")
        if name in arrays:
            return arrays[name]
        scalars = object.__getattribute__(self, "scalars")
        if name in scalars:
            return scalars[name]
        raise AttributeError(name)

    @property
    def digest(self) -> str:
        """blake2b of every array, scalar and the congestion policy's source, as 32 hex digits."""
        h = hashlib.blake2b(digest_size=16)
        for spec in ARRAYS:
            a = self.arrays[spec.name]
            h.update(f"{spec.name}:{a.dtype.str}:{a.shape}".encode())
            h.update(np.ascontiguousarray(a).tobytes())
        for scalar in SCALARS:
            h.update(f"{scalar.name}={self.scalars[scalar.name]!r};".encode())
        h.update(self.congestion_digest.encode())
        return h.hexdigest()


def make_plan(
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, int | str],
    names: list[str],
    congestion: object | None = None,
    congestion_digest: str = "",
) -> Plan:
    """Check names, dtypes and leading lengths against the schema and freeze the arrays.

    Raises
    ------
    ValueError
        An array or scalar is missing, unknown, or of another dtype or rank.
    """
    frozen: dict[str, np.ndarray] = {}
    for spec in ARRAYS:
        if spec.name not in arrays:
            raise ValueError(f"plan array {spec.name} is missing")
        a = np.ascontiguousarray(arrays[spec.name], dtype=np.dtype(spec.dtype))
        if a.ndim != len(spec.shape):
            raise ValueError(
                f"plan array {spec.name}: {a.ndim} dimensions, the schema says {len(spec.shape)}"
            )
        a = a.copy()
        a.flags.writeable = False
        frozen[spec.name] = a
    unknown = sorted(set(arrays) - {s.name for s in ARRAYS})
    unknown += sorted(set(scalars) - {s.name for s in SCALARS})
    if unknown:
        raise ValueError(f"not in the plan schema: {', '.join(unknown)}")
    for scalar in SCALARS:
        if not isinstance(scalars.get(scalar.name), scalar.kind):
            raise ValueError(f"plan scalar {scalar.name} must be {scalar.kind.__name__}")
    return Plan(frozen, dict(scalars), list(names), congestion, congestion_digest)


def contradictions(plan: Plan) -> Iterator[tuple[str, str]]:
    """Arrays that do not fit the plan's own counts, each with what is wrong; none if it is whole.

    Lengths of what belongs to nodes, ports and switches, and numbers of nodes and ports.
    """
    n_node, n_port = int(plan.n_node), int(plan.n_port)
    counts = {"n_host": int(plan.n_host), "n_node": n_node, "n_port": n_port}
    lengths = {
        **counts,
        "n_node + 1": n_node + 1,
        "n_port + 1": n_port + 1,
        "n_switch": n_node - counts["n_host"],
    }
    for spec in ARRAYS:
        rows = lengths.get(str(spec.shape[0]))
        shape = plan.arrays[spec.name].shape
        if rows is not None and shape != (rows, *spec.shape[1:]):
            yield spec.name, f"its shape is {shape}, not ({', '.join(map(str, spec.shape))})"
    if len(plan.names) != n_node:
        yield "names", f"{len(plan.names)} names for {n_node} nodes"
    for name, least, below in (
        ("node_port_start", 0, n_port + 1),
        ("port_node", 0, n_node),
        ("port_peer", 0, n_port),
    ):
        wrong = np.flatnonzero((plan.arrays[name] < least) | (plan.arrays[name] >= below))
        if len(wrong):
            at = int(wrong[0])
            yield name, f"entry {at} is {plan.arrays[name][at]}, not {least} to {below - 1}"
