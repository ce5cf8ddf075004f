"""What hosts and switches share: routes, links, and obeying pauses."""

from __future__ import annotations

from emunet._core.rows import EVENT_DEPART, EVENT_LOST, EVENT_PAUSE_RX, EVENT_RESUME_RX
from emunet.plan.schema import (
    CHANGE_DOWN,
    CHANGE_ROUTE,
    CHANGE_UP,
    ROUTE_BLOCK,
    ROUTE_LOCAL,
    ROUTE_NONE,
    ROUTE_TABLE,
    Plan,
)
from emunet.twin.agenda import (
    ARRIVAL,
    CONTROL,
    DEPARTURE,
    IDLE,
    LINK_CONTROL,
    TIMER,
    WORK,
    Agenda,
    Event,
    Key,
)
from emunet.twin.channel import Channel
from emunet.twin.congestion import Congestion
from emunet.twin.draws import Draws
from emunet.twin.port import PAUSE_BYTES, Packet, Port
from emunet.twin.records import Records

EXPIRY, REFRESH, WATCHDOG = 0, 1, 2
"""Numbers of a class's pause timers."""

N_PAUSE_TIMER = 4

CHANGE = 1 << 62
"""Entity of a node's changes: after all other timers of an instant."""


class World:
    """What all nodes see: the plan, the agenda, the draws, the records, and every port."""

    def __init__(self, plan: Plan, records: Records) -> None:
        self.plan = plan
        self.agenda = Agenda()
        self.draws = Draws(plan.seed, plan.ties)
        self.records = records
        self.congestion = Congestion(plan)
        self.channels = [Channel(plan, port, self.draws) for port in range(plan.n_port)]
        self.ports: list[Port] = []
        # last time at which a packet arrived or departed, or a timer of a connection fired
        self.moved_ps = 0


class Node:
    """A node with its ports. Handlers change nothing but it and what travels on its links."""

    def __init__(self, world: World, node: int, port_class: type[Port]) -> None:
        plan = world.plan
        self.world = world
        self.node = node
        self.ports = [
            port_class(plan, p)
            for p in range(plan.node_port_start[node], plan.node_port_start[node + 1])
        ]
        world.ports.extend(self.ports)
        self.route_kind = int(plan.node_route_kind[node])
        self.route_row = int(plan.node_table_row[node])
        self.closed: set[int] = set()  # local ports that are known to be down
        self.arm_change(int(plan.node_change_start[node]))

    # faults

    def arm_change(self, number: int) -> None:
        """Wait for a change of the plan, if it is this node's."""
        plan = self.world.plan
        if number < plan.node_change_start[self.node + 1]:
            key = (self.node, TIMER, CHANGE, number)
            self.world.agenda.arm(int(plan.change_ps[number]), key, effort=IDLE)

    def change(self, number: int, now: int) -> None:
        """Do what the plan says."""
        plan = self.world.plan
        kind, value = int(plan.change_kind[number]), int(plan.change_value[number])
        if kind == CHANGE_ROUTE:
            self.route_kind, self.route_row = ROUTE_TABLE, value
            self.rerouted(now)
        else:
            port = self.ports[plan.change_port[number]]
            if kind == CHANGE_UP:
                self.closed.discard(port.local)
            elif kind == CHANGE_DOWN:
                self.closed.add(port.local)
                self.flush(port, now)
            else:
                port.set_rate(value)
        self.arm_change(number + 1)

    # routes

    def candidates(self, dst: int) -> list[int]:
        """Local indices of the next hops of all shortest paths to a host."""
        plan, node = self.world.plan, self.node
        if self.route_kind == ROUTE_NONE:
            return [0]
        if self.route_kind == ROUTE_BLOCK:
            below = dst - int(plan.node_host_lo[node])
            if below >= 0 and dst < plan.node_host_hi[node]:
                parallel = int(plan.node_down_par[node])
                start = (
                    int(plan.node_down_start[node]) + below // int(plan.node_block[node]) * parallel
                )
                return list(range(start, start + parallel))
            start = int(plan.node_up_start[node])
            return list(range(start, start + int(plan.node_up_count[node])))
        next_hops = int(plan.route_set[self.route_row + plan.host_rack[dst]])
        if next_hops == ROUTE_LOCAL:
            attach = int(plan.port_peer[plan.node_port_start[dst]])
            return [attach - int(plan.node_port_start[node])]
        if next_hops < 0:
            return []
        return plan.set_port[plan.set_start[next_hops] : plan.set_start[next_hops + 1]].tolist()

    def route(self, dst: int, key: int) -> int:
        """Local index of the port that a packet takes; -1: there is none."""
        candidates = self.candidates(dst)
        if not candidates:
            return -1
        if len(candidates) == 1:
            return candidates[0]
        return candidates[self.world.draws.choose(self.node, key, dst, len(candidates))]

    # sending

    def transmit(self, port: Port, packet: Packet, now: int, occupancy: int) -> int:
        """Start the transmission of a packet on an idle port, and give its end."""
        world = self.world
        end_ps = port.occupy(now, packet.bytes)
        peer = world.ports[port.peer]
        port.count["tx_packets"] += 1
        port.count["tx_bytes"] += packet.bytes
        totals = world.records.totals
        totals["packet_hops"] += 1
        world.records.packet_event(now, self.node, port.local, EVENT_DEPART, packet, occupancy)
        channel = world.channels[port.index]
        down = channel.is_down(now, end_ps + port.delay_ps)
        if down or channel.loses(packet.bytes, now):
            cause = "down" if down else "lost"
            port.count[f"{cause}_packets"] += 1
            port.count[f"{cause}_bytes"] += packet.bytes
            totals[f"{cause}_packets"] += 1
            world.records.packet_event(now, self.node, port.local, EVENT_LOST, packet, 0)
        else:
            totals["in_flight_packets"] += 1
            self._post(ARRIVAL, end_ps + port.delay_ps + peer.rx_latency_ps, peer, (WORK, packet))
        world.moved_ps = now
        return end_ps

    def transmit_pause(self, port: Port, klass: int, on: bool, now: int) -> None:
        """Send XOFF or XON as soon as the frame in transmission has left."""
        start_ps = max(now, port.busy_until_ps)
        end_ps = port.occupy(now, PAUSE_BYTES)
        channel = self.world.channels[port.index]
        if channel.is_down(start_ps, end_ps + port.delay_ps) or channel.loses(
            PAUSE_BYTES, start_ps
        ):
            port.count["lost_pauses"] += 1
            return
        peer = self.world.ports[port.peer]
        self._post(
            LINK_CONTROL,
            end_ps + port.delay_ps + peer.pause_latency_ps,
            peer,
            (CONTROL, (klass, on)),
        )

    def _post(self, kind: int, time_ps: int, peer: Port, load: tuple) -> None:
        tie = self.world.draws.tie(peer.node, time_ps, peer.local)
        self.world.agenda.post(Event(time_ps, peer.node, kind, tie, peer.local, 0, load))

    # pauses

    def pause_timer(self, port: Port, klass: int, what: int) -> Key:
        """Key of a pause timer: before those of connections, in the order (port, class, what)."""
        return self.node, TIMER, port.local - len(self.ports), N_PAUSE_TIMER * klass + what

    def receive_pause(self, port: Port, klass: int, on: bool, now: int) -> None:
        """Obey XOFF or XON."""
        if not on:
            self.unpause(port, klass, now)
            return
        port.count["pause_rx"] += 1
        self.world.records.pause_event(now, self.node, port.local, EVENT_PAUSE_RX, klass, 0)
        if not port.paused[klass]:
            port.paused[klass] = True
            port.paused_since_ps[klass] = now
        expiry_ps = now + self.world.ports[port.peer].pause_ps
        self.world.agenda.arm(expiry_ps, self.pause_timer(port, klass, EXPIRY), effort=CONTROL)

    def unpause(self, port: Port, klass: int, now: int) -> None:
        """Release a class, by XON or because the pause has expired."""
        if not port.paused[klass]:
            return
        port.paused[klass] = False
        port.count["paused_ps"] += now - port.paused_since_ps[klass]
        self.world.agenda.cancel(self.pause_timer(port, klass, EXPIRY))
        self.world.records.pause_event(now, self.node, port.local, EVENT_RESUME_RX, klass, 0)
        self.plan_departure(port, now)

    # departures

    def arm_departure(self, port: Port, time_ps: int) -> None:
        """Look at the port at that time."""
        tie = self.world.draws.tie(self.node, time_ps, port.local)
        self.world.agenda.arm(time_ps, (self.node, DEPARTURE, port.local, 0), tie=tie)

    # what each kind of node does in its own way

    def rerouted(self, now: int) -> None:
        """The routes have changed."""

    def flush(self, port: Port, now: int) -> None:
        """A port is known to be down."""

    def plan_departure(self, port: Port, now: int) -> None:
        """Arm the port's next departure instant."""
        raise NotImplementedError

    def receive(self, port: Port, packet: Packet, now: int) -> None:
        """Handle the arrival of a packet."""
        raise NotImplementedError

    def fire(self, entity: int, number: int, now: int) -> None:
        """Handle a timer."""
        raise NotImplementedError

    def depart(self, port: Port, now: int) -> None:
        """Handle a departure instant."""
        raise NotImplementedError

    def look(self, number: int, now: int) -> None:
        """Handle a sampling or clearing instant."""
        raise NotImplementedError
