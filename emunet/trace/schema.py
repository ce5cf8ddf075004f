"""Every dataset of the trace, once: group, name, dtype, shape, unit, meaning.

The writers create datasets from this table, the reader checks files against it, and
`docs/trace_format.md` repeats it (a test compares them; ``python -m emunet.trace.schema`` prints
the tables of that page).
"""

from __future__ import annotations

from dataclasses import dataclass

from emunet._core import rows
from emunet.plan import schema as plan_schema

SCHEMA = "emunet/1"
"""Root attribute `schema`. A change that old readers would misread changes the number."""

NOT_KNOWN = -1
"""Value of every result column of a message that has not (yet) got that far."""

STATUS_UNFINISHED, STATUS_DELIVERED, STATUS_FINISHED, STATUS_FAILED = range(4)
STATUS_NAMES = ("unfinished", "delivered", "finished", "failed")
"""`/flows/status`: nothing yet; last byte received; and last ACK received; sender gave up."""


@dataclass(frozen=True)
class Dataset:
    """One dataset of the trace.

    Attributes
    ----------
    group, name : str
        Place in the file: ``/group/name``.
    dtype : str
        Numpy name; ``text`` is UTF-8.
    shape : str
        Symbolic; empty for one value.
    unit, meaning : str
        Written beside the data as attributes `unit` and `long_name`.
    enum : tuple of str
        Names of the values 0, 1, ...; attribute `enum`.
    """

    group: str
    name: str
    dtype: str
    shape: str
    unit: str
    meaning: str
    enum: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attribute:
    """One attribute of a group of the trace (`group` is empty for the root)."""

    group: str
    name: str
    kind: str
    unit: str
    meaning: str


def _flow(name: str, dtype: str, unit: str, meaning: str, enum: tuple[str, ...] = ()) -> Dataset:
    return Dataset("flows", name, dtype, "n_flow", unit, meaning, enum)


MESSAGE_COLUMNS: tuple[Dataset, ...] = (
    _flow("flow", "int64", "", "message number, 0, 1, ... in order of start time"),
    _flow("src", "int32", "", "sending host"),
    _flow("dst", "int32", "", "receiving host"),
    _flow("size_bytes", "int64", "bytes", "payload of the message"),
    _flow("start_ps", "int64", "ps", "when the sender may begin"),
    _flow("klass", "uint8", "", "priority class"),
    _flow("background", "uint8", "", "1: marked `background: true` in the scenario"),
    _flow("tag", "int32", "", "workload item: index into `/meta/tags`; -1 none"),
    _flow(
        "base_rtt_ps",
        "int64",
        "ps",
        "round trip of a full packet on the shortest path of an empty network",
    ),
    _flow(
        "ideal_fct_ps", "int64", "ps", "completion time of this message alone on its shortest path"
    ),
)
"""Columns of `/flows` that are known when a message is submitted."""

RESULT_COLUMNS: tuple[Dataset, ...] = (
    _flow(
        "fct_rx_ps",
        "int64",
        "ps",
        "start to last byte in order in the receiver's memory; -1: not delivered",
    ),
    _flow("fct_ack_ps", "int64", "ps", "start to last ACK at the sender; -1: not acknowledged"),
    _flow(
        "retransmitted", "int32", "packets", "data packets sent more than once; -1: sender not done"
    ),
    _flow("timeouts", "int32", "", "retransmission timeouts; -1: sender not done"),
    _flow("nacks", "int32", "packets", "NACKs received by the sender; -1: sender not done"),
    _flow("cnps", "int32", "packets", "CNPs received by the sender; -1: sender not done"),
    _flow(
        "marked",
        "int32",
        "packets",
        "data packets received with a congestion mark; -1: not delivered",
    ),
    _flow(
        "out_of_order",
        "int32",
        "packets",
        "data packets ahead of the expected PSN; -1: not delivered",
    ),
    _flow("duplicates", "int32", "packets", "data packets received again; -1: not delivered"),
    _flow("status", "uint8", "", "how far the message got", STATUS_NAMES),
)
"""Columns of `/flows` that the run fills in; the digest covers them."""


def _column(
    group: str, name: str, dtype: str, unit: str, meaning: str, enum: tuple[str, ...] = ()
) -> Dataset:
    return Dataset(group, name, dtype, "n_row", unit, meaning, enum)


QUEUE_COLUMNS: tuple[Dataset, ...] = (
    _column("samples/queues", "time_ps", "int64", "ps", "sampling instant"),
    _column(
        "samples/queues",
        "queue_bytes",
        "int64",
        "bytes",
        "egress bytes of the port, all classes, from now on",
    ),
    _column("samples/queues", "port", "int32", "", "global port number"),
)

PACKET_COLUMNS: tuple[Dataset, ...] = (
    _column("packets", "time_ps", "int64", "ps", "when it happened"),
    _column("packets", "flow", "int64", "", "message number; -1 for pause frames"),
    _column(
        "packets",
        "occupancy_bytes",
        "int64",
        "bytes",
        "arrive, drop, pause_tx, resume_tx: the ingress group's; "
        "depart, mark: the queue's; 0 otherwise",
    ),
    _column("packets", "node", "int32", "", "node number"),
    _column("packets", "port", "int32", "", "port index within the node"),
    _column(
        "packets", "psn", "int32", "", "data: its PSN; ACK, NACK: the expected PSN; modulo 2^24"
    ),
    _column("packets", "frame_bytes", "int32", "bytes", "destination address to FCS"),
    _column("packets", "kind", "uint8", "", "what happened", rows.EVENT_KINDS),
    _column("packets", "packet", "uint8", "", "kind of packet", rows.PACKET_KINDS),
    _column("packets", "klass", "uint8", "", "priority class"),
    _column(
        "packets",
        "flags",
        "uint8",
        "",
        "bit 0 congestion mark, bit 1 retransmission, bit 2 last of its message",
    ),
)

PFC_COLUMNS: tuple[Dataset, ...] = (
    _column("pfc", "time_ps", "int64", "ps", "when it was decided"),
    _column("pfc", "port", "int32", "", "global number of the switch port that decides"),
    _column("pfc", "klass", "uint8", "", "priority class"),
    _column("pfc", "on", "uint8", "", "what was decided; refreshes are not listed", rows.PFC_KINDS),
)

WATERMARK_COLUMNS: tuple[Dataset, ...] = (
    _column("watermarks", "object", "int32", "", "what held the bytes", rows.WATERMARK_OBJECTS),
    _column("watermarks", "node", "int32", "", "node number of the switch"),
    _column("watermarks", "port", "int32", "",
            "global number: out-port of a queue, in-port of a group; -1: of the switch"),
    _column("watermarks", "klass", "int32", "", "priority class; -1: of the switch"),
    _column("watermarks", "watermark_bytes", "int64", "bytes", "greatest since the start"),
    _column("watermarks", "user_bytes", "int64", "bytes", "greatest since the user's last clear"),
    _column("watermarks", "persistent_bytes", "int64", "bytes",
            "greatest since the last clear of the persistent ones"),
    _column("watermarks", "p99_bytes", "int64", "bytes",
            "p99 over the sampling instants, at most 1/32 too high; -1: there were none"),
    _column("watermarks", "byte_ps", "float64", "bytes * ps",
            "time integral; over the simulated time it is the mean; -1: not known"),
)  # fmt: skip

PERIODIC_COLUMNS: tuple[Dataset, ...] = (
    _column("samples/periodic", "time_ps", "int64", "ps", "end of the interval"),
    _column("samples/periodic", "watermark_bytes", "int64", "bytes", "greatest within it"),
    _column("samples/periodic", "object", "int32", "", "what held the bytes",
            rows.WATERMARK_OBJECTS),
    _column("samples/periodic", "node", "int32", "", "node number of the switch"),
    _column("samples/periodic", "port", "int32", "", "global number; -1: of the switch"),
    _column("samples/periodic", "klass", "int32", "", "priority class; -1: of the switch"),
)  # fmt: skip

UNFINISHED_COLUMNS: tuple[Dataset, ...] = (
    _column("unfinished", "flow", "int64", "", "message number"),
    _column("unfinished", "until_ps", "int64", "ps", "armed until; -1: no timer"),
    _column(
        "unfinished",
        "delivered_bytes",
        "int64",
        "bytes",
        "in order at the receiver, which takes data until `linger` after a message is given up",
    ),
    _column("unfinished", "size_bytes", "int64", "bytes", "payload of the message"),
    _column("unfinished", "src", "int32", "", "sending host"),
    _column("unfinished", "dst", "int32", "", "receiving host"),
    _column("unfinished", "port", "int32", "", "global number of the paused port; -1 otherwise"),
    _column("unfinished", "wait", "int32", "", "what it waited for at the end", rows.WAIT_NAMES),
)

DEADLOCK_COLUMNS: tuple[Dataset, ...] = (
    _column("deadlocks", "time_ps", "int64", "ps",
            "when it was seen first, at most `record.deadlocks` after it closed"),
    _column("deadlocks", "cycle", "int32", "", "number of the circle"),
    _column("deadlocks", "position", "int32", "", "within it; the last one waits for the first"),
    _column("deadlocks", "node", "int32", "", "node number of the switch"),
    _column("deadlocks", "in_port", "int32", "",
            "global number of the port whose priority group is full"),
    _column("deadlocks", "out_port", "int32", "",
            "global number of the paused port behind which the group has packets"),
    _column("deadlocks", "klass", "int32", "", "priority class"),
)  # fmt: skip

ROW_TABLES: dict[str, tuple[str, tuple[Dataset, ...], dict[str, str]]] = {
    "queues": ("samples/queues", QUEUE_COLUMNS, {}),
    "events": ("packets", PACKET_COLUMNS, {"occupancy_bytes": "occupancy", "frame_bytes": "bytes"}),
    "pfc": ("pfc", PFC_COLUMNS, {}),
    "periodic": ("samples/periodic", PERIODIC_COLUMNS, {}),
}
"""Key of ``Engine.drain()`` -> group, columns, and row fields of columns with another name."""

QUEUE_TIME = "queue_byte_ps"
"""Float64 counter of ``Engine.ports()`` that goes with the integer ones."""

_UNIT_OF_ENDING = {
    "_byte_ps": "bytes * ps",
    "_ps": "ps",
    "_bytes": "bytes",
    "_packets": "packets",
    "_frames": "frames",
    "_tx": "frames",
    "_rx": "frames",
}


def _counter_unit(name: str) -> str:
    return next((unit for ending, unit in _UNIT_OF_ENDING.items() if name.endswith(ending)), "")


PORT_COLUMNS: tuple[Dataset, ...] = (
    *(
        Dataset("ports", n, "int64", "n_port", _counter_unit(n), m)
        for n, m in rows.PORT_COUNTERS.items()
    ),
    Dataset(
        "ports",
        QUEUE_TIME,
        "float64",
        "n_port",
        _counter_unit(QUEUE_TIME),
        "time integral of the egress bytes; over the simulated time it is the mean queue",
    ),
    *(
        Dataset("ports", n, "int64", "n_port, 8", _counter_unit(n), m)
        for n, m in rows.CLASS_COUNTERS.items()
    ),
)

SWITCH_COLUMNS: tuple[Dataset, ...] = tuple(
    Dataset("switches", n, "int64", "n_switch", _counter_unit(n), m)
    for n, m in rows.SWITCH_COUNTERS.items()
)

PLAN_ARRAYS: tuple[Dataset, ...] = (
    *(
        Dataset("plan", a.name, a.dtype, ", ".join(str(n) for n in a.shape), a.unit, a.meaning)
        for a in plan_schema.ARRAYS
    ),
    Dataset("plan", "names", "text", "n_node", "", "node names, hosts first"),
)

META_DATASETS: tuple[Dataset, ...] = (
    Dataset("meta", "scenario", "text", "", "", "the scenario as it was run, YAML"),
    Dataset("meta", "tags", "text", "n_tag", "", "names of the workload items"),
    Dataset(
        "meta",
        "workload",
        "text",
        "n_item",
        "",
        "each workload item: its distribution and mean, load, pattern, or file with digest",
    ),
    Dataset(
        "meta",
        "warnings",
        "text",
        "n_warning",
        "",
        "declared outputs that got no rows, rows cut by a limit",
    ),
)

DATASETS: tuple[Dataset, ...] = (
    *META_DATASETS,
    *PLAN_ARRAYS,
    *MESSAGE_COLUMNS,
    *RESULT_COLUMNS,
    *PORT_COLUMNS,
    *SWITCH_COLUMNS,
    *WATERMARK_COLUMNS,
    *QUEUE_COLUMNS,
    *PERIODIC_COLUMNS,
    *PACKET_COLUMNS,
    *PFC_COLUMNS,
    *DEADLOCK_COLUMNS,
    *UNFINISHED_COLUMNS,
)
"""The whole trace but its attributes."""

ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("", "schema", "text", "", f'"{SCHEMA}"'),
    Attribute("", "emunet_version", "text", "", "version of the program that wrote the file"),
    Attribute("", "seed", "int", "", "seed of every draw"),
    Attribute(
        "",
        "complete",
        "bool",
        "",
        "the run came to its natural end, or to the `until` it was given",
    ),
    Attribute(
        "",
        "reason",
        "text",
        "",
        'why it ended: "done", "until", "interrupted", ...; "running" until it has',
    ),
    Attribute(
        "",
        "digest",
        "text",
        "",
        "blake2b of all results, 32 hex digits; empty without counters",
    ),
    Attribute(
        "meta",
        "workload_flows",
        "int",
        "",
        "messages of the whole workload, those after its end included; missing if not known before",
    ),
    Attribute(
        "meta",
        "base_dir",
        "text",
        "",
        "where the scenario's relative paths begin, as seen from the folder of this file",
    ),
    Attribute("meta", "plan_digest", "text", "", "blake2b of the Plan, 32 hex digits"),
    Attribute(
        "meta",
        "digest_*",
        "text",
        "",
        "digest of each part: flows, ports, switches, totals, watermarks, queues, packets, pfc, "
        "periodic",
    ),
    Attribute(
        "meta/engine",
        "*",
        "",
        "",
        "wall and CPU time, threads, peak memory, simulated time, high-water marks",
    ),
    Attribute("meta/machine", "*", "", "", "the machine of the run"),
    Attribute("meta/build", "*", "", "", "build of the engine and versions of the libraries"),
    *(Attribute("totals", n, "int", _counter_unit(n), m) for n, m in rows.TOTALS.items()),
    *(
        Attribute("plan", s.name, {int: "int", str: "text"}[s.kind], s.unit, s.meaning)
        for s in plan_schema.SCALARS
    ),
    Attribute("plan", "congestion_digest", "text", "", "digest of the congestion policy's source"),
    Attribute("watermarks", "every_ps", "int", "ps", "period of the samples behind p99; 0: none"),
    Attribute("watermarks", "user_cleared_ps", "int", "ps", "the user's last clear; 0: none"),
    Attribute("watermarks", "persistent_cleared_ps", "int", "ps",
              "last clear of the persistent ones; 0: none"),
    Attribute("samples/periodic", "every_ps", "int", "ps", "length of the intervals"),
    Attribute("samples/queues", "every_ps", "int", "ps", "sampling period"),
    Attribute(
        "samples/queues",
        "ports",
        "text",
        "",
        'which ports were sampled: "all", "fabric" or "last_hop"',
    ),
)
"""Attributes of the groups; ``*`` stands for those that the run decides."""


def datasets_of(group: str) -> tuple[Dataset, ...]:
    """Datasets of one group, in file order."""
    return tuple(d for d in DATASETS if d.group == group)


def groups() -> list[str]:
    """Groups that hold datasets or attributes, in file order; the root is left out."""
    return list(
        dict.fromkeys([*(d.group for d in DATASETS), *(a.group for a in ATTRIBUTES if a.group)])
    )


def markdown(group: str) -> str:
    """Tables of one group as they stand in `docs/trace_format.md`."""
    attributes = [a for a in ATTRIBUTES if a.group == group]
    lines: list[str] = []
    if datasets_of(group):
        lines += ["| dataset | dtype | shape | unit | meaning |", "|---|---|---|---|---|"]
        for d in datasets_of(group):
            enum = (
                f" ({', '.join(f'{i} {name}' for i, name in enumerate(d.enum))})" if d.enum else ""
            )
            lines.append(f"| `{d.name}` | {d.dtype} | {d.shape} | {d.unit} | {d.meaning}{enum} |")
    if attributes:
        lines += [""] * bool(lines) + ["| attribute | type | unit | meaning |", "|---|---|---|---|"]
        lines += [f"| `{a.name}` | {a.kind} | {a.unit} | {a.meaning} |" for a in attributes]
    return "\n".join(lines)


if __name__ == "__main__":
    for shown in ("", *groups()):
        print(f"### `/{shown}`\n\n{markdown(shown)}\n")
