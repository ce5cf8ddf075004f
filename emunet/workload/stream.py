"""All elements of a workload as one stream of messages in start order, chunk by chunk.

An element is one module of this package, named like its key in the scenario, with
``element(options, context)`` (the options are the model of the scenario); adding the file adds the
generator.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from emunet.errors import InputFileError, Problems
from emunet.units import format_time
from emunet.workload import wire
from emunet.workload.messages import Context, Element, Messages, concatenate


class WorkloadStream:
    """The messages of a scenario. Iterating gives chunks; iterating again gives the same ones.

    Parameters
    ----------
    elements : list of Element
        In the order of the scenario.
    chunk : int
        Messages in a chunk; the last may be shorter.
    warnings : sequence of str
        What was odd in the elements together; it follows what was odd in each.
    until_ps : int, optional
        End of the run: a chunk ends early rather than wait for messages from there on.

    Attributes
    ----------
    elements : list of Element
    tags : list of str
        What `Messages.tag` counts.
    total : int or None
        Messages, if that is certain before generating.
    expected_messages, expected_bytes, expected_packets, expected_slot_bytes : float
        Means, exact where `total` is known, of the whole workload, also after the end of the run.
    warnings : list of str
        What was odd in the input.
    """

    def __init__(
        self,
        elements: list[Element],
        chunk: int = 65536,
        warnings: Sequence[str] = (),
        until_ps: int | None = None,
    ) -> None:
        self.elements, self.chunk, self.until_ps = elements, max(1, chunk), until_ps
        self.tags: list[str] = []
        known: dict[str, int] = {}
        self._tag_of: list[np.ndarray] = []
        for element in elements:
            names = element.tags or [element.tag]
            self._tag_of.append(
                np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int32)
            )
        self.tags = list(known)
        totals = [element.total for element in elements]
        self.total = None if None in totals else sum(t for t in totals if t is not None)
        self.expected_messages = sum(element.expected_messages for element in elements)
        self.expected_bytes = sum(element.expected_bytes for element in elements)
        self.expected_packets = sum(element.expected_packets for element in elements)
        self.expected_slot_bytes = sum(element.expected_slot_bytes for element in elements)
        self.warnings = [
            *(warning for element in elements for warning in element.warnings),
            *warnings,
        ]

    def expected_before_end(self) -> tuple[float, float]:
        """Messages and data packets that start before the end of the run, on average."""
        parts = [element.part_before(self.until_ps) for element in self.elements]
        both = list(zip(parts, self.elements, strict=True))
        return (
            sum(part * element.expected_messages for part, element in both),
            sum(part * element.expected_packets for part, element in both),
        )

    def __iter__(self) -> Iterator[Messages]:
        return self.chunks()

    def chunks(self, first_id: int = 0) -> Iterator[Messages]:
        """Chunks from message `first_id` on; order and numbers do not depend on `chunk`."""
        waiting: list[Messages] = []
        n_waiting, number = 0, 0
        for piece in self._merged():
            if number + len(piece) <= first_id:
                number += len(piece)
                continue
            skip = max(0, first_id - number)
            number += skip
            waiting.append(piece.take(slice(skip, None)) if skip else piece)
            n_waiting += len(piece) - skip
            over = self.until_ps is not None and int(piece.start_ps[-1]) >= self.until_ps
            if n_waiting < self.chunk and not over:
                continue
            whole = concatenate(waiting)
            whole_chunks = n_waiting if over else n_waiting // self.chunk * self.chunk
            for at in range(0, whole_chunks, self.chunk):
                last = min(at + self.chunk, whole_chunks)
                yield whole.take(slice(at, last), first_id=number + at)
            number += whole_chunks
            n_waiting -= whole_chunks
            waiting = [whole.take(slice(whole_chunks, None))]
        if n_waiting:
            yield replace(concatenate(waiting), first_id=number)

    def _merged(self) -> Iterator[Messages]:
        """Pieces in the order (start, element, order within the element).

        What starts before the last buffered start of every unfinished element can be passed on; a
        buffer that alone holds the horizon is filled further.
        """
        sources = [element.blocks(self.chunk) for element in self.elements]
        buffers: list[Messages | None] = [self._next(i, source) for i, source in enumerate(sources)]
        done = [buffer is None for buffer in buffers]
        while any(buffer is not None for buffer in buffers):
            last = [
                int(b.start_ps[-1])
                for b, d in zip(buffers, done, strict=True)
                if b is not None and not d
            ]
            horizon = min(last, default=None)
            ready = []
            for i, buffer in enumerate(buffers):
                if buffer is None:
                    continue
                cut = (
                    len(buffer)
                    if horizon is None
                    else int(np.searchsorted(buffer.start_ps, horizon, side="left"))
                )
                ready.append(buffer.take(slice(0, cut)))
                buffers[i] = buffer.take(slice(cut, None)) if cut < len(buffer) else None
            for i, source in enumerate(sources):
                held = buffers[i]
                if not done[i] and (held is None or int(held.start_ps[-1]) == horizon):
                    more = self._next(i, source)
                    done[i] = more is None
                    buffers[i] = (
                        concatenate([part for part in (held, more) if part is not None])
                        if held or more
                        else None
                    )
            piece = concatenate(ready)
            if len(piece):
                yield (
                    piece
                    if len(ready) == 1
                    else piece.take(np.argsort(piece.start_ps, kind="stable"))
                )

    def _next(self, element: int, source: Iterator[Messages]) -> Messages | None:
        """The next block that is not empty, with the stream's tags."""
        for block in source:
            if len(block):
                return replace(block, tag=self._tag_of[element][block.tag])
        return None


def stream(
    scenario: Any, topology: Any, base_dir: Path | str = ".", chunk: int = 65536
) -> WorkloadStream:
    """The messages of a scenario's workload, in start order.

    Parameters
    ----------
    scenario : Scenario
        Its `workload`, `seed`, `until` and `transport` are used.
    topology : Topology
        Hosts, names and rates.
    base_dir : path
        Where the scenario's relative paths begin.
    chunk : int
        Messages in a chunk.

    Raises
    ------
    ScenarioError
        A host that does not exist, an end that is missing, and the like; all of them at once.
    InputFileError
        A file that cannot be read.
    """
    problems = Problems(getattr(scenario, "locate", None))
    names = topology.names
    rates = host_rates(topology)
    elements = []
    for index, item in enumerate(scenario.workload):
        kind, klass = item.kind, item.klass
        context = Context(
            index=index,
            path=f"$.workload[{index}].{kind}",
            seed=scenario.seed,
            n_host=topology.n_host,
            names=names,
            host_rate_bps=rates,
            mtu_bytes=scenario.transport.mtu,
            klass=scenario.transport.klass if klass is None else klass,
            klass_given=klass is not None,
            background=item.background,
            tag=item.tag or _tag(scenario.workload, index),
            until_ps=scenario.until,
            base_dir=Path(base_dir),
            problems=problems,
        )
        generator = importlib.import_module(f"emunet.workload.{kind}")
        try:
            elements.append(generator.element(item, context))
        except InputFileError as error:
            error.named_at = context.path
            raise
    problems.check()
    return WorkloadStream(elements, chunk, _late_repairs(scenario, elements), scenario.until)


def _late_repairs(scenario: Any, elements: list[Element]) -> list[str]:
    """Selective repeat that never sees a loss, as its messages are shorter than `sr_reorder`.

    A packet is marked lost when one more than `sr_reorder` later has been acknowledged
    (``docs/semantics.md``, selective repeat); a shorter message has none.
    """
    transport, switch = scenario.transport, scenario.switch_values()
    if transport.recovery != "sr":
        return []
    lossless = switch["lossless_classes"] if switch["pfc"] else ()
    largest = [
        size
        for element in elements
        for klass, size in element.largest_bytes.items()
        if klass not in lossless
    ]
    if not largest:
        return []
    packets = int(wire.packets(np.array(max(largest)), transport.mtu))
    reorder = transport.sr_reorder
    if packets < 2 or packets > reorder + 1:
        return []
    order = "ecmp keeps packets in order" if transport.path == "ecmp" else "spraying reorders some"
    return [
        f"$.transport.sr_reorder: a loss is seen {reorder} packets later, and the largest message "
        f"that can lose packets has {packets}: each loss waits for the timeout "
        f"({format_time(transport.rto)}); set transport.sr_reorder well below {packets} "
        f"({order})"
    ]


def host_rates(topology: Any) -> np.ndarray:
    """int64[n_host]: sum of the rates of each host's ports."""
    rates = np.zeros(topology.n_host, dtype=np.int64)
    of_host = topology.port_node < topology.n_host
    np.add.at(rates, topology.port_node[of_host], topology.port_rate_bps[of_host])
    return rates


def _tag(workload: Any, index: int) -> str:
    """Name of an element without a tag: its kind, numbered if the kind occurs more than once."""
    kinds = [item.kind for item in workload]
    kind = kinds[index]
    return kind if kinds.count(kind) == 1 else f"{kind}-{kinds[:index].count(kind) + 1}"
