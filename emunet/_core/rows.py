"""Rows and counters of an engine: dtypes, units, meanings, shared by both engines and the trace."""

from __future__ import annotations

import numpy as np

DONE, UNTIL, PAUSED, PLUGIN_FAILED, STUCK, NO_MEMORY = range(6)
REASONS = ("done", "until", "paused", "plug-in failed", "stuck", "out of memory")
"""Why ``Engine.run`` returned."""

FLOW_RX_DONE, FLOW_TX_DONE, FLOW_FAILED = 0, 1, 2
"""`kind` of a flow row: last byte in receiver's memory; sender has last ACK; retries exhausted."""

FLOW_ROW = np.dtype([
    ("time_ps", "i8"),        # when it happened
    ("flow", "i8"),           # message number
    ("node", "i4"),           # host at which it happened
    ("kind", "i4"),           # FLOW_*
    ("retransmitted", "i4"),  # tx: data packets sent more than once
    ("timeouts", "i4"),       # tx: retransmission timeouts
    ("nacks", "i4"),          # tx: NACKs received; rx: NACKs sent
    ("cnps", "i4"),           # tx: CNPs received; rx: CNPs sent
    ("marked", "i4"),         # rx: data packets received with a congestion mark
    ("out_of_order", "i4"),   # rx: data packets ahead of the expected PSN
    ("duplicates", "i4"),     # rx: data packets already received
    ("pad", "i4"),
])

(EVENT_ARRIVE, EVENT_DEPART, EVENT_DROP, EVENT_MARK, EVENT_PAUSE_TX, EVENT_RESUME_TX,
 EVENT_PAUSE_RX, EVENT_RESUME_RX, EVENT_LOST) = range(9)
EVENT_KINDS = (
    "arrive", "depart", "drop", "mark", "pause_tx", "resume_tx", "pause_rx", "resume_rx", "lost",
)
"""`kind` of a packet event.

- arrive: a packet has reached the node (in-port; occupancy: `pg_bytes` after admission, 0 at a
  host; a dropped packet gives `drop` instead)
- depart: transmission starts (out-port; occupancy: queue bytes with it still in, 0 at a host)
- drop (in-port; occupancy: `pg_bytes`)
- mark (out-port; occupancy: queue bytes)
- pause_tx, resume_tx: XOFF (first or refresh), XON decided (port on which it leaves; occupancy:
  `pg_bytes` after the packet that caused it has been charged or released)
- pause_rx, resume_rx: XOFF arrived; class released by XON or expiry (port; occupancy 0; resume_rx
  only if the class was paused)
- lost: a packet that has departed will not arrive (out-port; occupancy 0)
"""

PACKET_DATA, PACKET_ACK, PACKET_NACK, PACKET_CNP, PACKET_PAUSE = range(5)
PACKET_KINDS = ("data", "ack", "nack", "cnp", "pause")

EVENT_ROW = np.dtype([
    ("time_ps", "i8"),
    ("flow", "i8"),           # message number; -1 for pause frames
    ("occupancy", "i8"),      # bytes, see EVENT_KINDS
    ("node", "i4"),
    ("port", "i4"),           # index within the node
    ("psn", "i4"),            # modulo 2^24: data its PSN; ACK and NACK the expected one; else 0
    ("bytes", "i4"),          # frame bytes; 64 for pause events
    ("kind", "u1"),           # EVENT_*
    ("packet", "u1"),         # PACKET_*
    ("klass", "u1"),          # priority class
    ("flags", "u1"),          # bit 0 congestion mark, 1 retransmission, 2 last packet of a message
    ("pad", "u4"),
])
EVENT_ORDER = ("time_ps", "node", "kind", "port", "flow", "psn", "packet", "klass")
"""Canonical order of event rows, most significant first."""

QUEUE_ROW = np.dtype([
    ("time_ps", "i8"),
    ("queue_bytes", "i8"),    # egress bytes of the port, all classes
    ("port", "i4"),           # global port number
    ("pad", "i4"),
])
"""One row when a sampled port's bytes differ from its last row (0 at the start)."""

PFC_XON, PFC_XOFF, PFC_STORM, PFC_RESTORED = range(4)
PFC_KINDS = ("xon", "xoff", "storm", "restored")
"""`on` of a PFC row: what the port has sent, or what its watchdog has found."""

PFC_ROW = np.dtype([
    ("time_ps", "i8"),
    ("port", "i4"),           # global port number of the switch port that sends
    ("klass", "u1"),
    ("on", "u1"),             # PFC_*; refreshes are not listed
    ("pad", "u2"),
])

# WAIT_FAILED if given up, else the first that applies of WAIT_START, _ACK_LOST, _WINDOW, _ACK,
# _PAUSED, _PACING; `until_ps` is the start, the pause's expiry, the earliest turn (_PACING), or the
# deadline of the retransmission timer
(WAIT_START, WAIT_PAUSED, WAIT_ACK, WAIT_WINDOW, WAIT_PACING, WAIT_FAILED, WAIT_ACK_LOST) = range(7)
WAIT_NAMES = (
    "its start time",
    "a paused class",
    "acknowledgements",
    "window",
    "pacing",
    "nothing: retries exhausted",
    "the acknowledgement of delivered data",
)

UNFINISHED_ROW = np.dtype([
    ("flow", "i8"),
    ("until_ps", "i8"),         # timer armed until; -1: none
    ("delivered_bytes", "i8"),  # in order at the receiver, until its half is forgotten
    ("size_bytes", "i8"),
    ("src", "i4"),
    ("dst", "i4"),
    ("port", "i4"),             # global number of the paused port, -1 otherwise
    ("wait", "i4"),             # WAIT_*
])

WAITS_ROW = np.dtype([
    ("node", "i4"),             # switch
    ("klass", "i4"),
    ("in_port", "i4"),          # global number: the group's port
    ("out_port", "i4"),         # global number: a paused port behind which it has packets
])
"""``Engine.waits()``: what groups in XOFF wait for that nothing here can empty, in field order."""

DEADLOCK_ROW = np.dtype([
    ("time_ps", "i8"),          # when it was seen first
    ("cycle", "i4"),            # number of the circle
    ("position", "i4"),         # within it; the last one waits for the first
    ("node", "i4"),             # switch
    ("in_port", "i4"),          # global number: port of the group that is full
    ("out_port", "i4"),         # global number: paused port behind which it has packets
    ("klass", "i4"),
])

QUEUE, PG_SHARED, PG_HEADROOM, POOL_SHARED, POOL_HEADROOM = range(5)
WATERMARK_OBJECTS = ("queue", "pg_shared", "pg_headroom", "pool_shared", "pool_headroom")
"""`object` of a watermark.

- queue: egress bytes of a port and class
- pg_shared: bytes of an ingress priority group outside headroom, those reserved for it included
- pg_headroom: its headroom bytes
- pool_shared: shared pool use of a switch
- pool_headroom: headroom bytes of all groups of a switch
"""

WATERMARK_ROW = np.dtype([
    ("object", "i4"),            # WATERMARK_OBJECTS
    ("node", "i4"),              # switch
    ("port", "i4"),              # global port number: out-port of a queue, in-port of a group; -1
    ("klass", "i4"),             # priority class; -1 for pools
    ("watermark_bytes", "i8"),   # greatest since the start
    ("user_bytes", "i8"),        # greatest since the user's last clear
    ("persistent_bytes", "i8"),  # greatest since the last clear of the persistent ones
    ("p99_bytes", "i8"),         # p99 over the sampling instants; -1: there were none
    ("byte_ps", "f8"),           # time integral; -1: not known (semantics 3.5)
])
"""One row for each object that has held a byte, in the order of the first four fields."""

PERIODIC_ROW = np.dtype([
    ("time_ps", "i8"),           # end of the interval
    ("watermark_bytes", "i8"),   # greatest within it
    ("object", "i4"),
    ("node", "i4"),
    ("port", "i4"),
    ("klass", "i4"),
])
"""One row for each object that has held a byte in an interval, when the interval ends."""
WATERMARK_ORDER = ("object", "node", "port", "klass")

LOSSES = ("dropped", "lost", "down", "unrouted", "flushed")
"""Causes for which a packet does not arrive; each is a counter ``..._packets`` of ports and totals.
"""

PORT_COUNTERS = {
    "tx_packets": "packets put on the outgoing link (pause frames not counted)",
    "tx_bytes": "frame bytes put on the outgoing link (pause frames not counted)",
    "marked_packets": "data packets marked on this port's egress",
    "dropped_packets": "packets that arrived here and were dropped",
    "dropped_bytes": "frame bytes of those",
    "dropped_lossless_packets": "of those, in a lossless class (must be 0 with enough headroom)",
    "dropped_watchdog_packets": "of those that were dropped, by the PFC watchdog",
    "lost_packets": "packets lost on the outgoing link",
    "lost_bytes": "frame bytes of those",
    "lost_pauses": "XOFF and XON frames lost on the outgoing link, for whatever cause",
    "down_packets": "packets lost because the outgoing link was down",
    "down_bytes": "frame bytes of those",
    "unrouted_packets": "packets that arrived here and had no way on: no route, or a port known "
                        "to be down",
    "flushed_packets": "packets that arrived here and were in the queue of a port found down",
    "pause_tx": "XOFF frames sent, refreshes included",
    "resume_tx": "XON frames sent",
    "pause_rx": "XOFF frames received",
    "paused_ps": "time paused, summed over classes; a pause still on counts up to now",
    "watermark_bytes": "greatest egress bytes, all classes, since the start",
}
"""int64[n_port] arrays of ``Engine.ports()``.

With them goes `queue_byte_ps` (float64), the time integral of the egress bytes.
"""

CLASS_COUNTERS = {
    "queue_watermark_bytes": "greatest egress bytes of each class",
    "pg_watermark_bytes": "greatest bytes of each ingress priority group outside headroom",
    "headroom_watermark_bytes": "greatest headroom bytes of each ingress priority group",
}
"""int64[n_port, 8] arrays of ``Engine.ports()``."""

SWITCH_COUNTERS = {
    "pool_watermark_bytes": "greatest shared pool use",
    "headroom_pool_watermark_bytes": "greatest sum of the headroom bytes of all groups",
}
"""int64[n_switch] arrays of ``Engine.switches()``."""

TOTALS = {
    "packet_hops": "packets carried over one link each (pause frames not counted)",
    "data_packets": "data packets sent by hosts, retransmissions included",
    "ack_packets": "ACKs sent",
    "nack_packets": "NACKs sent",
    "cnp_packets": "CNPs sent",
    "retransmitted_packets": "data packets sent more than once",
    "delivered_packets": "packets of all kinds that reached their host",
    "dropped_packets": "packets dropped in switches",
    "dropped_lossless_packets": "of those, in a lossless class",
    "dropped_watchdog_packets": "of those that were dropped, by PFC watchdogs",
    "lost_packets": "packets lost on links that were up",
    "down_packets": "packets lost because a link was down",
    "unrouted_packets": "packets dropped in switches that had no way on",
    "flushed_packets": "packets dropped in switches, in queues of ports found down",
    "marked_packets": "marks set by switches",
    "out_of_order_packets": "data packets ahead of the expected PSN at receivers",
    "duplicate_packets": "data packets already received",
    "stale_packets": "packets for connections that are gone",
    "timeouts": "retransmission timeouts",
    "pause_frames": "XOFF frames sent, refreshes included",
    "resume_frames": "XON frames sent",
    "paused_ps": "time paused, summed over ports and classes",
    "in_flight_packets": "on links now",
    "queued_packets": "in switch queues and host response queues now",
    "flows_submitted": "messages submitted",
    "flows_delivered": "messages whose last byte has been delivered",
    "flows_finished": "messages whose sender has the last ACK",
    "flows_failed": "messages given up after max_retries",
    "events": "events handled",
}
"""Keys of ``Engine.totals()``."""
