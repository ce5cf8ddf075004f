"""The loop around ``Engine.run``, its only caller: scenario in, trace and result out."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emunet import __version__
from emunet._core import MOST_THREADS, is_checked, load_engine, rows
from emunet.analysis import Run
from emunet.deadlock import DeadlockWatch
from emunet.errors import EngineError, UsageError
from emunet.info import build_facts, machine_facts, peak_rss_bytes
from emunet.interrupt import Interrupts
from emunet.progress import Progress, Silent, Status
from emunet.units import format_time

if TYPE_CHECKING:
    from emunet.plan.compile import Compiled
    from emunet.plan.schema import Plan
    from emunet.scenario import Scenario
    from emunet.trace.recorder import Recorder, WatermarkTimes
    from emunet.trace.source import Source
    from emunet.workload import Messages, WorkloadStream

    ScenarioLike = Scenario | Mapping[str, Any] | str | Path

END_OF_TIME_PS = 1 << 62
"""Later than anything that happens: 53 days."""

TURN_S = 0.1
"""Wall-clock time after which the progress bar, Ctrl-C and the writer get their turn."""

FIRST_TURN_WINDOWS = 64
MOST_TURN_WINDOWS = 1 << 20

CHUNK_MESSAGES = 1 << 16
"""Messages submitted together; also how far the workload is generated ahead."""


@dataclass(frozen=True)
class Prepared:
    """A scenario that has passed every check and can run.

    Attributes
    ----------
    scenario : Scenario
        With the overrides applied.
    compiled : Compiled
        The Plan and what led to it.
    stream : WorkloadStream
        The messages.
    warnings : list of str
        What will run but is probably not meant.
    """

    scenario: Scenario
    compiled: Compiled
    stream: WorkloadStream
    warnings: list[str]


class FinishedRun(Run):
    """The results of a run that has just ended; `emunet.load` gives the same from a file.

    Attributes
    ----------
    notes : list of str
        What the user should know of the scenario and the run; `warnings` are those of the outputs.
    """

    def __init__(self, source: Source, notes: list[str]) -> None:
        super().__init__(source)
        self.notes = notes

    @property
    def reason(self) -> str:
        """Why it ended: "done", "until", "stuck", "interrupted"."""
        return str(self.meta["reason"])

    @property
    def complete(self) -> bool:
        """It came to its natural end or to the `until` it was given."""
        return bool(self.meta["complete"])


def prepare(
    scenario: ScenarioLike,
    *,
    cc: str | None = None,
    seed: int | None = None,
    until: str | int | None = None,
    set: Sequence[str] = (),
) -> Prepared:
    """Check a scenario and the files that it names, and compile it; parameters as of `run`.

    Raises
    ------
    ScenarioError, InputFileError, PluginError
        What is wrong, with its place.
    """
    from emunet import workload
    from emunet.plan.compile import compile_scenario

    checked = _resolve(scenario, _overrides(cc, seed, until, set, _base_dir(scenario)))
    compiled = compile_scenario(checked, checked.base_dir)
    stream = workload.stream(checked, compiled.topology, checked.base_dir, CHUNK_MESSAGES)
    warnings = [*checked.notes(), *compiled.warnings, *stream.warnings]
    return Prepared(checked, compiled, stream, warnings)


def run(
    scenario: ScenarioLike,
    *,
    out: str | Path | None = None,
    cc: str | None = None,
    seed: int | None = None,
    threads: int = 1,
    until: str | int | None = None,
    set: Sequence[str] = (),
    twin: bool = False,
    progress: Progress | None = None,
    force: bool = False,
    compression: str = "portable",
) -> FinishedRun:
    """Run a scenario.

    Parameters
    ----------
    scenario : path, Scenario or mapping
        A YAML file, or the same as Python objects.
    out : path, optional
        Trace file to write; without it the results stay in memory.
    cc : str, optional
        Congestion control instead of the scenario's: a shipped one or a ``.py`` file.
    seed : int, optional
        Seed instead of the scenario's.
    threads : int
        Threads of the engine; results do not depend on it.
    until : str or int (ps), optional
        Stop before this simulated time.
    set : sequence of str
        Further changes: ``switch.buffer=16MB``.
    twin : bool
        Run on the plain-Python engine: slow, the same results.
    progress : Progress, optional
        Told a few times a second where the run stands.
    force : bool
        Replace `out` if it exists, unless it is a device or a file that the run reads.
    compression : {"portable", "fast"}
        Of the trace file.

    Returns
    -------
    FinishedRun
        Also after Ctrl-C, with `reason` "interrupted"; a second Ctrl-C raises `KeyboardInterrupt`.

    Raises
    ------
    ScenarioError, InputFileError
        Before anything runs or is written.
    PluginError
        The policy failed while running.
    EngineError
        No memory, or an audit of the engine found a defect.
    """
    prepared = prepare(scenario, cc=cc, seed=seed, until=until, set=set)
    return execute(
        prepared,
        out=out,
        threads=threads,
        twin=twin,
        progress=progress,
        force=force,
        compression=compression,
    )


def execute(
    prepared: Prepared,
    *,
    out: str | Path | None = None,
    threads: int = 1,
    twin: bool = False,
    progress: Progress | None = None,
    force: bool = False,
    compression: str = "portable",
) -> FinishedRun:
    """Run what `prepare` gave; the parameters are those of `run`."""
    from emunet.trace.memory import MemoryTrace
    from emunet.trace.reader import FileSource
    from emunet.trace.writer import TraceWriter

    check_threads(threads)
    memory = MemoryTrace()
    writer = None
    if out is not None:
        keep = _files_read(prepared)
        writer = TraceWriter(out, compression=compression, force=force, keep=keep)
    recorder = writer or memory
    with recorder:
        loop = _Loop(prepared, recorder, threads=threads, twin=twin, progress=progress or Silent())
        loop.run()
    source: Source = memory if out is None else FileSource(out, ours=True)
    return FinishedRun(source, [*prepared.warnings, *loop.notes()])


def check_threads(threads: int) -> None:
    """Raise `UsageError` for a number of threads that the engine does not take."""
    if not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"threads: {threads} is not possible; 1 to {MOST_THREADS} are")


def _overrides(
    cc: str | None,
    seed: int | None,
    until: str | int | None,
    set: Sequence[str],
    base_dir: Path,
) -> list[str]:
    """Options as settings ``path=value``; `set` comes last and so wins."""
    overrides = []
    if cc is not None:
        here = cc.endswith(".py") and not Path(cc).is_absolute()
        name = _seen_from(base_dir, cc) if here else cc
        overrides += [
            f"transport.cc={json.dumps(name)}",
            "transport.cc_set=null",
            "transport.cc_params={}",
        ]
    if seed is not None:
        overrides.append(f"seed={seed}")
    if until is not None:
        overrides.append(f"until={until}ps" if isinstance(until, int) else f"until={until}")
    return [*overrides, *set]


def _seen_from(folder: Path, path: Path | str) -> str:
    """A path as seen from a folder; it names the same, however both are reached."""
    return os.path.relpath(Path(path).resolve(), folder.resolve())


def _files_read(prepared: Prepared) -> list[Path]:
    """The scenario's file, and whatever a text in it may be the path of."""
    scenario, policy = prepared.scenario, prepared.compiled.plan.congestion
    found = {Path(scenario.file), Path(getattr(policy, "path", ""))}
    waiting: list[Any] = [scenario.to_dict()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [item for key, item in value.items() if key not in ("name", "tag")]
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, str):
            found.add(scenario.base_dir / value)
    return sorted(found)


def _base_dir(scenario: ScenarioLike) -> Path:
    """Where a scenario's relative paths begin."""
    if isinstance(scenario, (str, Path)):
        return Path(scenario).parent
    return Path(getattr(scenario, "base_dir", "."))


def _resolve(scenario: ScenarioLike, overrides: Sequence[str]) -> Scenario:
    """The scenario as a checked object, with the overrides applied."""
    from emunet.scenario import Scenario, load_scenario, parse_scenario

    if isinstance(scenario, (str, Path)):
        return load_scenario(scenario, overrides)
    if not isinstance(scenario, Scenario):
        scenario = Scenario.model_validate(scenario)
    if not overrides:
        return scenario
    name = scenario.file or "<scenario>"
    return parse_scenario(scenario.to_yaml(defaults=False), overrides, scenario.base_dir, name)


class _Loop:
    """One run: feeds the engine, hands its rows on, gives everybody their turn."""

    def __init__(
        self,
        prepared: Prepared,
        recorder: Recorder,
        *,
        threads: int,
        twin: bool,
        progress: Progress,
    ) -> None:
        self.prepared = prepared
        self.recorder = recorder
        self.threads = threads
        self.twin = twin
        self.progress = progress
        self.until_ps = prepared.scenario.until or END_OF_TIME_PS
        self.totals: dict[str, int] = {}
        self.cpu_s = self.wall_s = 0.0
        self.now_ps = 0
        self._interrupts = Interrupts(self._abandon)
        self._windows = FIRST_TURN_WINDOWS
        self._expected_hops = 0
        self._cut = False
        self._deadlocks = DeadlockWatch(self.plan, prepared.scenario.record.deadlocks or 0)

    @property
    def plan(self) -> Plan:
        """The Plan that runs."""
        return self.prepared.compiled.plan

    @property
    def _times(self) -> WatermarkTimes:
        """When watermarks are sampled and cleared."""
        from emunet.trace.recorder import WatermarkTimes

        wanted = self.prepared.scenario.record.watermarks
        return WatermarkTimes(
            wanted.every or 0, wanted.periodic or 0, wanted.clear_user, wanted.clear_persistent
        )

    # the run, from the first message to the last counter

    def run(self) -> None:
        """Run to the end and close the recorder's books."""
        engine = self._engine()
        self._begin()
        self._expected_hops = self._expect()
        chunks = iter(self.prepared.stream)
        first = self._figures(next(chunks, None))
        try:
            with self._interrupts:
                reason = self._timed(engine, first, chunks)
                self._finish(engine, reason)
        finally:
            self.progress.close()
        if reason == rows.REASONS[rows.PLUGIN_FAILED]:
            self._plugin_failed(engine)
        if reason == rows.REASONS[rows.NO_MEMORY]:
            raise EngineError(
                "out of memory; `--dry-run` estimates what a scenario needs", time_ps=self.now_ps
            )
        self._audit()

    def _timed(self, engine: Any, first: _Chunk | None, chunks: Any) -> str:
        cpu, wall = time.process_time(), time.perf_counter()
        self._cpu_start, self._wall_start = cpu, wall
        try:
            return self._feed(engine, first, chunks)
        finally:
            self.cpu_s = time.process_time() - cpu
            self.wall_s = time.perf_counter() - wall

    def _feed(self, engine: Any, chunk: _Chunk | None, chunks: Any) -> str:
        """Submit chunk after chunk, each before simulated time reaches its first message.

        The engine runs up to the first start of the chunk that follows, so at most one chunk waits
        in it.
        """
        while True:
            following = self._figures(next(chunks, None))
            if chunk is not None:
                self._submit(engine, chunk)
            horizon_ps = self.until_ps
            if following is not None:
                horizon_ps = min(horizon_ps, following.first_start_ps)
            reason = self._advance(engine, horizon_ps)
            if reason not in (rows.REASONS[rows.DONE], rows.REASONS[rows.UNTIL]):
                return reason
            if following is None or horizon_ps == self.until_ps:
                # Idle at the end, but the list goes on: it is the end that cut it.
                return rows.REASONS[rows.UNTIL] if following or self._cut else reason
            chunk = following

    def _advance(self, engine: Any, horizon_ps: int) -> str:
        """Run up to `horizon_ps`, turn by turn; the reason why it stopped.

        Where it looks for deadlocks depends on simulated time alone.
        """
        while True:
            stop_ps = min(horizon_ps, self._deadlocks.next_ps)
            began = time.perf_counter()
            with nullcontext() if self.twin else self._interrupts.away():
                status = engine.run(stop_ps, self._windows)
            self.recorder.append_rows(engine.drain())
            self.progress.update(self._status(engine))
            if self._interrupts.requested:
                return "interrupted"
            if status == rows.UNTIL and stop_ps == self._deadlocks.next_ps:
                self._look_for_deadlocks(engine, stop_ps)
                if stop_ps < horizon_ps:
                    continue
            if status != rows.PAUSED:
                return rows.REASONS[status]
            self._pace(time.perf_counter() - began)

    def _look_for_deadlocks(self, engine: Any, now_ps: int) -> None:
        """Record the circles of pauses that are new, and say so."""
        n_said = len(self._deadlocks.warnings)
        self.recorder.append_deadlocks(self._deadlocks.look(engine, now_ps))
        for text in self._deadlocks.warnings[n_said:]:
            self.progress.warn(text)

    def _pace(self, turn_s: float) -> None:
        """Adapt the windows of a turn to `TURN_S`; results never depend on where turns end."""
        factor = min(2.0, max(0.5, TURN_S / max(turn_s, 1e-6)))
        self._windows = min(MOST_TURN_WINDOWS, max(1, int(self._windows * factor)))

    def _abandon(self) -> None:
        """Close the outputs as after Ctrl-C; the engine does not return."""
        self.progress.close()
        self.recorder.abandon()

    # before

    def _engine(self) -> Any:
        """The engine with what the scenario wants recorded."""
        from emunet.scenario.where_bounds import event_bounds
        from emunet.twin import TwinEngine

        record = self.prepared.scenario.record
        queues, packets = record.queues, record.packets
        engine_class = TwinEngine if self.twin else load_engine()
        return engine_class(
            self.plan,
            threads=self.threads,
            sample_every_ps=queues.every if queues else 0,
            sample_port_mask=_sampled_ports(self.plan, queues.ports) if queues else None,
            log_events=packets is not None,
            event_filter=event_bounds(packets.where) if packets else None,
            **vars(self._times),
        )

    def _begin(self) -> None:
        """Declare the outputs."""
        from emunet.scenario.where import compile_where

        scenario, total = self.prepared.scenario, self.prepared.stream.total
        queues, packets = scenario.record.queues, scenario.record.packets
        self.recorder.begin(
            self.plan,
            scenario.to_yaml(),
            {
                "version": __version__,
                "name": scenario.name,
                "scenario_file": scenario.file,
                "base_dir": _seen_from(self.recorder.folder, scenario.base_dir),
                **({} if total is None else {"workload_flows": total}),
                "build": build_facts(),
                "machine": machine_facts(),
            },
            self.prepared.stream.tags,
            workload=[element.words for element in self.prepared.stream.elements],
            queues_every_ps=queues.every if queues else 0,
            queues_ports=queues.ports if queues else "all",
            packets=packets is not None,
            packet_filter=compile_where(packets.where) if packets and packets.where else None,
            packet_limit=packets.limit if packets else None,
            pfc=scenario.record.pfc,
            watermarks=self._times,
        )

    def _expect(self) -> int:
        """Packet-hops of the whole run by the estimate; 0 if nobody wants to know."""
        if isinstance(self.progress, Silent):
            return 0
        from emunet.plan.limits import estimate

        return int(estimate(self.prepared.compiled, self.prepared.stream).packet_hops)

    # during

    def _figures(self, messages: Messages | None) -> _Chunk | None:
        """A chunk with the figures of each message in an empty network."""
        if messages is None:
            return None
        paths = self.prepared.compiled.paths
        return _Chunk(
            messages,
            paths.base_rtt_ps(messages.src, messages.dst),
            paths.ideal_fct_ps(messages.src, messages.dst, messages.size_bytes),
        )

    def _submit(self, engine: Any, chunk: _Chunk) -> None:
        """Hand messages that start before the end to the engine, and to the recorder."""
        m = chunk.messages
        n = int(np.searchsorted(m.start_ps, self.until_ps, side="left"))
        self._cut |= n < len(m)
        if not n:
            return
        m = m.take(slice(0, n), first_id=m.first_id)
        self.recorder.append_messages(m.first_id, m, chunk.base_rtt_ps[:n], chunk.ideal_fct_ps[:n])
        engine.submit(m.ids, m.src, m.dst, m.size_bytes, m.start_ps, m.klass, chunk.base_rtt_ps[:n])

    def _status(self, engine: Any) -> Status:
        if isinstance(self.progress, Silent):
            return Status()
        totals, total = engine.totals(), self.prepared.stream.total
        return Status(
            engine.now_ps,
            totals["flows_delivered"],
            -1 if total is None else total,
            totals["packet_hops"],
            self._expected_hops,
            time.process_time() - self._cpu_start,
            time.perf_counter() - self._wall_start,
        )

    # after

    def _finish(self, engine: Any, reason: str) -> None:
        """Close the recorder's books."""
        self.totals = engine.totals()
        # not the wait for timers and pauses that no longer matter
        done = reason == rows.REASONS[rows.DONE] or (
            reason == rows.REASONS[rows.STUCK] and not self.totals["queued_packets"]
        )
        self.now_ps = int(engine.moved_ps if done else engine.now_ps)
        if reason in (rows.REASONS[status] for status in (rows.DONE, rows.UNTIL, rows.STUCK)):
            self._look_for_deadlocks(engine, engine.now_ps)
        self.recorder.finish(
            engine.ports(),
            engine.switches(),
            self.totals,
            {
                "now_ps": self.now_ps,
                "wall_s": self.wall_s,
                "cpu_s": self.cpu_s,
                "threads": self.threads,
                "peak_rss_bytes": peak_rss_bytes(),
                "engine": "twin" if self.twin else "checked" if is_checked() else "native",
                "high_water": dict(getattr(engine, "high_water", dict)()),
            },
            complete=reason in (rows.REASONS[rows.DONE], rows.REASONS[rows.UNTIL]),
            reason=reason,
            unfinished=engine.unfinished(),
            watermarks=engine.watermarks(self.now_ps),
        )

    def _plugin_failed(self, engine: Any) -> None:
        """Raise the user's exception, from the user's line."""
        from emunet.plugin import explain_failure

        policy: Any = self.plan.congestion
        f = engine.failure
        error = explain_failure(policy, f["hook"], f["ctx"], f["state"])
        error.message += f" (flow {f['flow']}, {format_time(int(f['time_ps']))})"
        raise error

    def _audit(self) -> None:
        """The books must balance; a defect of the engine is never a quiet result."""
        from emunet.verify import conservation

        broken = conservation(self.totals)
        if broken:
            raise EngineError(f"audit failed: {'; '.join(broken)}", time_ps=self.now_ps)

    def notes(self) -> list[str]:
        """What the user should know of this run."""
        said = []
        if is_checked() and not self.twin:
            said.append("this is the checked build of the engine; its speed says nothing")
        said += self._deadlocks.warnings
        lossless = self.totals["dropped_lossless_packets"]
        if lossless:
            said.append(
                f"{lossless} packets were lost in a lossless class: headroom is too small "
                "(switch.headroom: auto computes it)"
            )
        acted = ("marked_packets", "pause_frames", "dropped_packets")
        policy: Any = self.plan.congestion
        listens = policy is not None and not {*policy.hooks} <= {"start"}
        if listens and self.totals["flows_submitted"] and not any(self.totals[n] for n in acted):
            said.append("CC never acted: no packet was marked, paused or lost")
        return said


@dataclass(frozen=True)
class _Chunk:
    """Messages and their figures in an empty network."""

    messages: Messages
    base_rtt_ps: np.ndarray
    ideal_fct_ps: np.ndarray

    @property
    def first_start_ps(self) -> int:
        return int(self.messages.start_ps[0])


def _sampled_ports(plan: Plan, which: str) -> np.ndarray:
    """uint8[n_port]: switch ports that `record.queues.ports` names."""
    at_switch = plan.port_node >= plan.n_host
    last_hop = plan.port_last_hop.astype(bool)
    chosen = {"all": at_switch, "fabric": at_switch & ~last_hop, "last_hop": at_switch & last_hop}
    return chosen[which].astype(np.uint8)
