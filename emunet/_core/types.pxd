"""Structs of the engine.

All times are int64 picoseconds, all sizes frame bytes (destination address to FCS). Indices are
32-bit; `NIL` ends lists. `FOREVER` is "never". Layouts are fixed: packets are 32 bytes, ports two
cache lines.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #define EMU_FOREVER INT64_MAX
    #define EMU_NIL 0xFFFFFFFFu
    #define EMU_G 0x9E3779B97F4A7C15ULL
    #ifdef EMUNET_CHECKED
    #define EMU_CHECK(th, cond, code) \\
        do { if (!(cond) && !(th)->fault) (th)->fault = (code); } while (0)
    #define EMU_BROKEN(th, cond, code) \\
        (!(cond) && ((th)->fault ? 1 : ((th)->fault = (code), 1)))
    #else
    #define EMU_CHECK(th, cond, code) ((void)0)
    #define EMU_BROKEN(th, cond, code) 0
    #endif
    #define EMU_PREFETCH(p) __builtin_prefetch(p)
    #define EMU_HIGHEST(mask) (31 - __builtin_clz((unsigned)(mask)))
    #define EMU_CTZ64(word) __builtin_ctzll(word)
    #define EMU_HIGHEST64(word) (63 - __builtin_clzll((unsigned long long)(word)))
    #define EMU_UNLIKELY(x) __builtin_expect(!!(x), 0)
    typedef __int128 emu_wide;
    """
    ctypedef long long wide "emu_wide"    # 128 bits: sums of bytes times ps, exact for any run
    const int64_t FOREVER "EMU_FOREVER"
    const uint32_t NIL "EMU_NIL"
    const uint64_t GOLDEN "EMU_G"
    void check "EMU_CHECK"(Thread* th, bint condition, int code) noexcept nogil
    bint broken "EMU_BROKEN"(Thread* th, bint condition, int code) noexcept nogil
    void prefetch "EMU_PREFETCH"(const void* p) noexcept nogil
    int highest_bit "EMU_HIGHEST"(uint32_t mask) noexcept nogil
    int highest_bit64 "EMU_HIGHEST64"(uint64_t word) noexcept nogil
    int lowest_bit64 "EMU_CTZ64"(uint64_t word) noexcept nogil
    bint unlikely "EMU_UNLIKELY"(bint x) noexcept nogil

cdef enum:
    N_CLASS = 8
    N_TIMER = 4
    N_FRESH = 25
    N_BUCKET = 2048          # of sample sizes; that of 2^62 is number 1855
    SLOT_BYTES = 20          # preamble, start delimiter and inter-frame gap of every frame
    ACK_BYTES = 66
    CNP_BYTES = 78
    PAUSE_BYTES = 64
    PAUSE_QUANTA = 65535
    MOST_SR_WINDOW = 1 << 15 # Packet.aux has 16 bits, and 65535 is none

cdef enum:                   # of Port.turn
    TURN_CLASS = 7
    TURN_BEGUN = 8           # the class has got its quantum for this turn

cdef enum:                   # packet kinds, as in rows.py
    DATA = 0
    ACK = 1
    NACK = 2
    CNP = 3
    PAUSE = 4

cdef enum:                   # `on` of a PFC row, beside 0 XON and 1 XOFF
    PFC_STORM = 2
    PFC_RESTORED = 3

cdef enum:                   # flags of Packet.psn_flags
    FLAG_RTX = 1
    FLAG_LAST = 2

cdef enum:                   # event kinds of a log row, as in rows.py
    EV_ARRIVE = 0
    EV_DEPART = 1
    EV_DROP = 2
    EV_MARK = 3
    EV_PAUSE_TX = 4
    EV_RESUME_TX = 5
    EV_PAUSE_RX = 6
    EV_RESUME_RX = 7
    EV_LOST = 8

cdef enum:                   # order of events of one instant at one node
    KIND_CONTROL = 0
    KIND_TIMER = 1
    KIND_ARRIVAL = 2
    KIND_SAMPLE = 3
    KIND_DEPARTURE = 4

cdef enum:                   # node_route_kind of the plan
    ROUTE_NONE = 0
    ROUTE_BLOCK = 1
    ROUTE_TABLE = 2

cdef enum:                   # entry of route_set
    ROUTE_LOCAL = -2         # the destination hangs on this node with its only cable

cdef enum:                   # where a sender half waits for its turn
    IDLE = 0
    READY = 1
    PACED = 2

cdef enum:                   # causes of the loss hook
    CAUSE_NACK = 1
    CAUSE_REORDER = 2
    CAUSE_TIMEOUT = 3

cdef enum:                   # what an unfinished flow waits for, as in rows.py
    WAIT_START = 0
    WAIT_PAUSED = 1
    WAIT_ACK = 2
    WAIT_WINDOW = 3
    WAIT_PACING = 4
    WAIT_FAILED = 5
    WAIT_ACK_LOST = 6

cdef enum:                   # hooks of the congestion slot
    HOOK_START = 0
    HOOK_ACK = 1
    HOOK_CNP = 2
    HOOK_LOSS = 3
    HOOK_TIMER = 4
    N_HOOK = 5

cdef enum:                   # in a timer's id: a change of the node, after all others of an instant
    CHANGE_BIT = 62

cdef enum:                   # when a port marks, as in plan/schema.py
    MARK_DEQUEUE = 0
    MARK_ENQUEUE = 1
    MARK_SOJOURN = 2

cdef enum:                   # audits of the checked build; the first broken one stops the run
    FAULT_TIME = 1           # a node handled an event earlier than the one before
    FAULT_QUEUE = 2          # queue bytes below zero or out of step with the list
    FAULT_GROUP = 3          # group bytes or headroom below zero
    FAULT_POOL = 4           # shared pool use below zero
    FAULT_LINK = 5           # a packet put on a link earlier than the one before
    FAULT_WINDOW = 6         # a packet due inside the window in which it was sent
    FAULT_PORT = 7           # a departure while the port is busy
    FAULT_PSN = 8            # sequence numbers out of order at a sender
    FAULT_RATE = 9           # a policy returned a rate that is not a number
    FAULT_ROUTE = 10         # no route for a destination

cdef struct Packet:          # 32 bytes
    int64_t time_ps          # on a link: arrival at the peer's node; in a queue: admission
    uint32_t conn            # connection (message number)
    uint32_t dst_bits        # destination host 24 | kind 4 | class 3 | congestion mark 1
    uint32_t psn_flags       # PSN 24 | flags 8
    uint32_t stamp_ns        # start of sending the data packet, modulo 2^32; echoed by its response
    uint16_t key             # entropy: the part of the 5-tuple that switches hash
    uint16_t aux             # sr ACK: PSN that it answers less expected PSN; 65535: none
    uint16_t bytes           # frame bytes
    uint16_t in_port         # in a switch: port of arrival within the node

cdef struct Slot:            # a packet in a queue
    Packet packet
    uint32_t next            # next in the queue or in the free list
    uint32_t bytes           # what the packet takes of the buffer

cdef struct Port:            # hot: two cache lines
    int64_t busy_until_ps    # end of the last frame started
    int64_t next_start_ps    # switch: start of the next departure; FOREVER: nothing to send
    int64_t tx_end_ps        # end of the packet whose bytes are still charged; FOREVER: none
    int64_t ser_n            # serialisation of one byte is ser_n / ser_d ps
    int64_t ser_d
    int64_t carry            # remainder of the last serialisation, in 1 / ser_d ps
    int64_t flight_ps        # propagation + latency of packets at the peer
    uint16_t tx_bytes        # packet in transmission: bytes, port of arrival, class
    uint16_t tx_in_port
    uint8_t tx_class
    uint8_t nonempty         # bit c: class c has packets (switch)
    uint8_t paused           # bit c: class c is paused
    uint8_t turn             # DWRR: class whose turn it is, + TURN_BEGUN
    int64_t kmin_bytes       # marking at departure: none up to this; -1: by the time waited
    int64_t tx_admit_ps      # admission of the packet in transmission
    int64_t egress_bytes     # all classes, packet in transmission included
    int64_t watermark_bytes
    int64_t n_tx
    int64_t n_tx_bytes
    int64_t reserve[2]

cdef struct PortCold:
    int64_t peer             # global port
    int64_t pause_flight_ps  # propagation + latency of pause frames at the peer
    int64_t pause_ps         # duration of one XOFF at this port's rate
    int64_t headroom_bytes   # of each lossless group of this in-port
    int64_t n_marked
    int64_t n_drop
    int64_t n_drop_bytes
    int64_t n_drop_lossless
    int64_t n_unrouted
    int64_t n_flushed
    int64_t n_drop_watchdog
    int64_t n_pause_tx
    int64_t n_resume_tx
    int64_t n_pause_rx
    int64_t paused_ps        # finished pauses
    int64_t n_mark_draw
    int64_t sampled_bytes    # value of the last sample row
    int64_t kmax_bytes       # marking is certain above this, bytes or time waited
    int64_t mark_when        # MARK_*
    int64_t mark_above       # none up to this, bytes or time waited
    double mark_slope        # pmax / (kmax - kmin)
    double rate_bps
    int64_t paused_since_ps[N_CLASS]
    int64_t pause_until_ps[N_CLASS]

cdef struct Channel:         # what becomes of frames on a link
    int64_t start_ps         # frames that start before are safe, as those from end_ps on
    int64_t end_ps           # 0: no frame is lost
    double loss_good         # probability of each state
    double loss_bad
    double to_bad            # probability of a change after a frame
    double to_good
    double bit_log           # log(1 - bit error rate)
    int64_t bad
    int64_t n_draw
    int64_t n_lost           # packets
    int64_t n_lost_bytes
    int64_t n_lost_pause     # pause frames
    int64_t n_down           # packets lost because the link was down
    int64_t n_down_bytes
    int64_t delay_ps         # propagation
    int32_t next_down        # in Sim.down_from_ps: the first that has not ended
    uint8_t closed           # the port's node knows that the link is down
    uint8_t pad1
    uint16_t pad2

cdef struct Queue:           # one class of one egress port
    int64_t bytes
    int64_t watermark_bytes  # greatest bytes since the last clear of any kind
    wide byte_ps             # time integral of the bytes that have left
    uint32_t head            # slots of the node's pool
    uint32_t tail
    int64_t pad

cdef struct Group:           # one class of one ingress port: a cache line
    int64_t bytes
    int64_t headroom_bytes
    int64_t watermark_bytes  # greatest bytes outside headroom since the last clear of any kind
    int64_t headroom_watermark_bytes
    wide byte_ps             # time integral of the bytes that have left, headroom included
    int64_t refresh_ps       # next repetition of XOFF; FOREVER: not in XOFF
    int64_t xoff

cdef struct HeadroomTime:    # one class of one ingress port
    wide byte_ps             # time integral of the headroom bytes up to since_ps
    int64_t since_ps         # last change
    int64_t pad

cdef struct Watch:           # PFC watchdog of one class of one out-port
    int64_t due_ps           # detection, in a storm restoration; FOREVER: neither
    int64_t storm

cdef struct Tally:           # samples of one object by size: a cache line
    uint64_t* counts         # bucket 16 | count 48, ascending
    int32_t n
    uint16_t n_fresh
    uint16_t fresh[N_FRESH]  # buckets that are not counted yet

cdef struct Peak:            # maxima of one object up to the last clear of any kind, bytes
    int64_t start            # since the start
    int64_t user             # since the user's last clear
    int64_t persistent       # since the last clear of the persistent ones
    int64_t periodic         # since the interval began

cdef struct LinkTx:          # sender's side of a link's FIFO
    Packet* ring
    uint32_t mask
    uint32_t tail
    uint32_t head_seen       # no later than the receiver's head
    uint32_t stamp           # window in which the link was last written
    uint32_t rx              # receiver's side of the link
    uint32_t pad

cdef struct LinkRx:          # receiver's side
    Packet* ring
    uint32_t mask
    uint32_t head
    uint32_t tail            # what the sender had written at the last window's edge
    uint32_t pad
    int64_t head_ps          # arrival of the first packet; FOREVER: empty

cdef struct Timer:
    int64_t time_ps
    uint64_t id              # order among timers of one instant
    uint32_t slot
    uint32_t pad

cdef struct Heap:            # binary heap of timers by (time, id)
    Timer* items
    uint32_t n
    uint32_t capacity

cdef struct Table:           # open addressing, connection -> slot
    uint32_t* keys           # NIL: empty
    uint32_t* slots
    uint32_t mask            # capacity - 1
    uint32_t n

cdef struct Pool:            # slots of queued packets, last freed first used
    Slot* slots
    uint32_t free
    uint32_t capacity
    uint32_t n_used
    uint32_t pad

cdef struct Route:
    int32_t kind
    int32_t host_lo
    int32_t host_hi
    int32_t block
    int32_t block_shift      # log2 of block, -1 if it is no power of two
    int32_t down_start
    int32_t down_par
    int32_t up_start
    int32_t up_count
    int32_t pad
    int64_t row
    uint64_t salt

cdef struct Switch:
    Route route
    int32_t node
    int32_t port_start
    int32_t n_port
    int32_t n_xoff           # groups in XOFF; departures are events while there are any
    int32_t n_storm          # classes of out-ports in a storm
    int32_t n_watch          # pauses that the watchdog times
    int64_t used_bytes       # shared pool use
    int64_t shared_bytes
    int64_t pool_watermark_bytes
    int64_t headroom_bytes   # of all groups
    int64_t headroom_watermark_bytes
    int64_t drained_ps       # all ports are drained up to this time
    int64_t xon_offset_bytes
    int64_t sample_ps        # next sample of queues; FOREVER: none
    int64_t measure_ps       # next sample of occupancies; FOREVER: none
    int64_t look_ps          # the earlier one of the two, or a clear before it
    int64_t cleared_ps       # last clear
    int64_t measured_bytes   # sum of the samples of used_bytes
    uint32_t n_control       # pause frames on the way to this node
    uint8_t lossless         # bit c: class c is
    uint8_t group_limited    # bit c: a lossy class's groups have a threshold
    uint8_t queue_limited    # bit c: the class's queues have a threshold
    uint8_t strict           # bit c: class c is served before all that take turns
    uint8_t class_of[N_CLASS]              # class here of a class of the hosts
    int64_t busy             # 0: nothing held and no window since the last interval ended
    int64_t headroom_limit_bytes
    int64_t detect_ps        # watchdog: a pause of this length is a storm; 0: none
    int64_t restore_ps       # a storm ends so long after the last XOFF
    int64_t forward          # 1: in a storm pauses are ignored; 0: packets are dropped
    int64_t cell_bytes       # buffer is taken in whole cells; 1: exact bytes
    double group_alpha[N_CLASS]
    double queue_alpha[N_CLASS]
    int64_t group_limit_bytes[N_CLASS]     # below 0: dynamic, by alpha
    int64_t queue_limit_bytes[N_CLASS]
    int64_t reserved_bytes[N_CLASS]
    int64_t quantum_bytes[N_CLASS]         # DWRR: link bytes a turn
    Pool pool
    Heap timers

cdef struct SendHalf:
    uint32_t conn
    uint32_t dst
    int64_t size_bytes
    uint32_t n_packet
    uint32_t una             # lowest PSN not acknowledged
    uint32_t next            # next new PSN (gbn: next to send)
    uint32_t sent_end        # one above the highest PSN ever sent
    double rate_bps
    int64_t window_bytes
    int64_t next_send_ps
    int64_t paced_from_ps    # start of the last data packet
    int64_t rto_ps           # deadline; FOREVER: off
    int64_t sr_inflight_bytes
    uint32_t ready_next
    uint16_t key
    uint8_t klass
    uint8_t where            # IDLE, READY, PACED
    uint8_t port             # within the host
    uint8_t started
    uint8_t gone             # finished or failed, still listed as READY
    uint8_t rto_listed       # the timer heap holds an entry for the deadline
    uint32_t n_sent          # data transmissions
    uint32_t retries
    uint32_t n_timeout
    uint32_t n_nack
    uint32_t n_cnp
    uint32_t n_rtx
    uint32_t sr_highest
    uint32_t sr_scan
    uint32_t sr_n_marked
    uint32_t paced_bytes     # slot bytes of the last data packet; 0: none sent yet
    int64_t base_rtt_ps
    int64_t timer_ps[N_TIMER]

cdef struct RecvHalf:
    int64_t size_bytes
    int64_t last_cnp_ps      # -1: none yet
    uint32_t conn
    uint32_t src
    uint32_t n_packet
    uint32_t epsn
    uint32_t unacked
    uint32_t n_marked
    uint32_t n_ooo
    uint32_t n_dup
    uint32_t n_nack
    uint32_t n_cnp
    uint16_t key             # entropy of its responses
    uint8_t klass
    uint8_t port
    uint8_t nacked
    uint8_t pad1
    uint16_t pad2

cdef struct HostPort:        # what waits for a host's port
    int64_t departure_ps     # next departure instant; FOREVER: none
    uint32_t ready_head[N_CLASS]
    uint32_t ready_tail[N_CLASS]
    uint32_t resp_head[N_CLASS]
    uint32_t resp_tail[N_CLASS]
    uint8_t ready_mask
    uint8_t resp_mask
    uint16_t pad1
    uint32_t pad2
    Heap paced               # time: next_send, id: connection

cdef struct Host:
    Route route
    int32_t node
    int32_t port_start
    int32_t n_port
    uint32_t n_control
    SendHalf* send
    RecvHalf* recv
    uint8_t* cc_state        # one state of the policy for each sender half
    uint64_t* send_bits      # sr: acknowledged, then marked, W bits each, for each sender half
    uint64_t* recv_bits      # sr: received, W bits for each receiver half
    uint32_t send_capacity
    uint32_t send_free
    uint32_t recv_capacity
    uint32_t recv_free
    uint32_t last_send       # slots of the last look-ups
    uint32_t last_recv
    Table send_table
    Table recv_table
    Heap timers
    Heap releases            # receiver halves to forget
    Pool pool

cdef struct Ctx:             # what a congestion hook sees; emunet.plugin.slots.CTX
    int64_t now_ps
    int64_t rtt_ps
    int64_t acked_bytes
    int64_t inflight_bytes
    int64_t marked
    int64_t cause
    int64_t timer
    double line_rate_bps
    int64_t base_rtt_ps
    int64_t bdp_bytes
    int64_t mtu_bytes
    int64_t size_bytes
    int64_t una_bytes
    int64_t next_bytes
    double rate_bps
    int64_t window_bytes

cdef struct Out:             # what it decides; emunet.plugin.slots.OUT
    double rate_bps
    int64_t window_bytes
    int64_t timer_ps[N_TIMER]

ctypedef int32_t (*Hook)(void* ctx, void* params, void* state, void* out) noexcept nogil

cdef struct FlowRow:
    int64_t time_ps
    int64_t flow
    int32_t node
    int32_t kind
    int32_t retransmitted
    int32_t timeouts
    int32_t nacks
    int32_t cnps
    int32_t marked
    int32_t out_of_order
    int32_t duplicates
    int32_t pad

cdef struct EventRow:
    int64_t time_ps
    int64_t flow
    int64_t occupancy
    int32_t node
    int32_t port
    int32_t psn
    int32_t bytes
    uint8_t kind
    uint8_t packet
    uint8_t klass
    uint8_t flags
    uint32_t pad

cdef struct QueueRow:
    int64_t time_ps
    int64_t queue_bytes
    int32_t port
    int32_t pad

cdef struct PeriodicRow:
    int64_t time_ps
    int64_t watermark_bytes
    int32_t object           # as in rows.py
    int32_t node
    int32_t port
    int32_t klass

cdef struct WatermarkRow:
    int32_t object
    int32_t node
    int32_t port
    int32_t klass
    int64_t watermark_bytes
    int64_t user_bytes
    int64_t persistent_bytes
    int64_t p99_bytes
    double byte_ps

cdef struct PfcRow:
    int64_t time_ps
    int32_t port
    uint8_t klass
    uint8_t on
    uint16_t pad

cdef struct UnfinishedRow:
    int64_t flow
    int64_t until_ps
    int64_t delivered_bytes
    int64_t size_bytes
    int32_t src
    int32_t dst
    int32_t port
    int32_t wait

cdef struct Rows:            # growing array of one kind of row
    char* data
    int64_t n
    int64_t capacity
    int64_t row_bytes

cdef struct Due:             # head of one source of a switch's events
    int64_t time_ps
    int32_t kind
    int32_t port

cdef struct Release:         # a receiver half to be forgotten, on its way to its host
    int64_t time_ps
    uint32_t host
    uint32_t conn

cdef struct Leftover:        # a receiver half forgotten before its message was whole
    uint32_t conn
    uint32_t epsn

cdef struct Failure:         # the earliest failing policy call
    int64_t time_ps          # FOREVER: none
    int64_t node
    int64_t flow
    int32_t hook
    int32_t pad
    Ctx ctx
    uint8_t state[256]       # as it was before the call

cdef struct Totals:
    int64_t data
    int64_t ack
    int64_t nack
    int64_t cnp
    int64_t retransmitted
    int64_t delivered
    int64_t dropped
    int64_t dropped_lossless
    int64_t dropped_watchdog
    int64_t lost
    int64_t down
    int64_t unrouted
    int64_t flushed
    int64_t marked
    int64_t out_of_order
    int64_t duplicate
    int64_t stale
    int64_t timeouts
    int64_t pause_frames
    int64_t resume_frames
    int64_t flows_delivered
    int64_t flows_finished
    int64_t flows_failed
    int64_t events

cdef struct Thread:          # what one thread writes; padded apart by its size
    Rows flows
    Rows log
    Rows queues
    Rows pfc
    Rows periodic
    Rows releases
    Rows dirty               # links written in this window (uint32)
    Rows failed              # flows given up, as rows of unfinished()
    Rows leftovers           # what their receivers had when they were forgotten
    Rows retired             # rings replaced in this window (pointers)
    Due* heap
    int32_t heap_n
    int32_t heap_capacity
    int32_t fault            # FAULT_*; 0: none
    int32_t no_memory
    int64_t activity_ps      # last event that was not link control
    Totals totals
    Failure failure
    uint8_t seen[N_BUCKET]   # scratch of tally_fold; 0 between its calls
    uint8_t pad[64]

ctypedef void (*Change)(Sim* sim, Thread* th, int32_t node, int32_t number,
                        int64_t now_ps) noexcept nogil

cdef struct Sim:
    # fabric
    int32_t n_host
    int32_t n_switch
    int32_t n_node
    int32_t n_port
    int32_t* node_port_start
    int32_t* port_node
    Port* port
    PortCold* cold
    Queue* queue             # [n_port, N_CLASS]
    Group* group             # [n_port, N_CLASS]
    int64_t* deficit         # [n_port, N_CLASS]: DWRR, link bytes; NULL: no class takes turns
    Channel* channel         # [n_port], of outgoing links; NULL: none loses frames
    int32_t* down_start      # [n_port + 1]: outages of the link out of each port
    int64_t* down_from_ps
    int64_t* down_until_ps
    int32_t* change_start    # [n_node + 1]: what each node changes
    int64_t* change_ps
    uint8_t* change_kind
    int32_t* change_port
    int64_t* change_value
    Change change            # makes one of them
    int32_t n_change
    HeadroomTime* headroom   # [n_port, N_CLASS]
    Watch* watch             # [n_port, N_CLASS], of out-ports; NULL: no switch has a watchdog
    LinkTx* tx               # [2 * n_port]: packets, then link control; by sending port
    LinkRx* rx               # [2 * n_port]: by receiving port
    Switch* switches
    Host* hosts
    HostPort* host_port      # [ports of hosts]
    int32_t* host_rack
    int32_t* route_set
    int32_t* set_start
    int32_t* set_port
    # work
    int64_t* due_ps          # [n_node]: earliest work of each node
    int64_t* block_due_ps    # least of 64 nodes each
    int32_t n_block
    uint32_t window          # number of the present window
    int64_t window_end_ps
    # transport
    int64_t mtu_bytes
    int64_t rto_ps
    int64_t linger_ps
    int64_t cnp_interval_ps
    uint32_t ack_every
    uint32_t max_retries
    uint32_t sr_window
    uint32_t sr_reorder
    uint8_t spray
    uint8_t selective
    uint8_t cnp_wanted
    uint8_t cnp_class
    uint8_t arrivals_seen    # admitted packets are logged, or marked when they join their queues
    uint8_t ties_by_port
    uint8_t log_on
    uint16_t log_kinds       # bit per EV_*
    # log filter
    int64_t log_flow_lo
    int64_t log_flow_hi
    # sampling
    int64_t sample_every_ps  # 0: off
    uint8_t* sample_mask     # [n_port]
    int64_t measure_every_ps  # 0: off
    Tally** tally            # samples by object, NULL: none; itself NULL: off
    Peak* peak               # by object; NULL: nothing is ever cleared
    int64_t clear_ps         # clear in the present window; FOREVER: none
    int32_t clear_mask       # kinds that it clears, bit per CLEAR_*
    # draws
    uint64_t key_tie
    uint64_t key_mark
    uint64_t key_entropy
    uint64_t key_spray
    uint64_t key_loss
    # congestion policy
    Hook hook[N_HOOK]
    void* cc_params
    int64_t cc_state_bytes
