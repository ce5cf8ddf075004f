"""Reports: what stands in the tables, that they fit, and that logs get plain text."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from trace_world import ENGINE, World, begin, feed, finish, make_world, record

from emunet._core import rows
from emunet.analysis import Run
from emunet.errors import EmunetError
from emunet.report import (
    make_console,
    print_head,
    print_info,
    print_result,
    print_tables,
    table_name,
    unfinished_reasons,
)
from emunet.report.words import per_second_text, ratio_text, size_text, time_text
from emunet.trace.memory import MemoryTrace
from emunet.trace.tables import open_tables
from emunet.trace.writer import TraceWriter


def run_of(world: object, reason: str = "done", background: bool | None = None) -> Run:
    if background is not None:
        world.messages["background"][:] = background
    recorder = MemoryTrace()
    with recorder:
        begin(recorder)
        feed(recorder, world)
        finish(recorder, world, reason=reason, complete=reason == "done")
    return Run(recorder)


def printed(print_it: object, *args: object, width: int = 80) -> str:
    out = io.StringIO()
    print_it(*args, make_console(out, width))
    return out.getvalue()


def huge_world() -> object:
    """Numbers as wide as they get: 400,000 messages' worth of counts, terabytes, seconds."""
    world = make_world(300)
    world.messages["size_bytes"] = np.random.default_rng(1).integers(1, 10**13, 300)
    world.messages["size_bytes"][:12] = 10 ** np.arange(12)
    world.ideal_fct_ps[:] = 7
    for name in world.totals:
        world.totals[name] = 123_456_789_012
    world.ports["watermark_bytes"][:] = 123_456_789
    world.ports["queue_byte_ps"][:] = 1e15
    return world


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("make", [huge_world, lambda: make_world(300)])
def test_the_result_fits_its_width_and_loses_nothing(width: int, make: object) -> None:
    """Claim: no line is wider than the console and no number is cut; lines are plain ASCII in a
    log."""
    text = printed(print_result, run_of(make()).summary, width=width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "…" not in text and text.isascii()


def test_the_result_says_what_the_summary_says() -> None:
    """Claim: the numbers of the table are those of the summary."""
    world = make_world(300)
    world.ports["watermark_bytes"][:] = np.arange(12) * 111_111
    s = run_of(world).summary
    text = printed(print_result, s)
    for expected in (
        f"{s['flows']['finished']} finished, {s['flows']['unfinished']} unfinished",
        f"{world.totals['packet_hops']:,}",
        f"{world.totals['marked_packets']:,}",
        f"{world.totals['pause_frames']:,}",
        "1,222,221 400,000 1,600,000",
        "888,888 400,000 1,600,000",
        "leaf1:1",
        "spine0:1",
        time_text(s["flows"]["fct_ps"]["p99"]),
        s["digest"],
        "5GB",
    ):
        assert expected in text, expected


def test_no_colours_in_a_log_and_some_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim: escape sequences go to terminals only, and not even there with NO_COLOR."""
    s = run_of(make_world(30)).summary
    assert "\x1b" not in printed(print_result, s)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in printed(print_result, s)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in printed(print_result, s)


def test_a_killed_run_is_printed() -> None:
    """Claim: what is not known is a dash, not an error."""
    recorder = MemoryTrace()
    with recorder:
        begin(recorder)
        feed(recorder, make_world(20))
    text = printed(print_result, Run(recorder).summary)
    assert "incomplete" in text and "packet-hops per CPU second -" in text


# what the times are of


def arrived_world() -> World:
    """Flow 3 is given up by its sender, but its receiver has all of it; no message is background.

    Flow 7 gets nowhere.
    """
    world = make_world(300)
    world.messages["background"][:] = False
    late = world.drained["flows"][:1].copy()
    late["flow"], late["kind"], late["time_ps"] = 3, rows.FLOW_RX_DONE, 45_000_000
    given_up = world.unfinished["flow"] == 3
    world.unfinished["delivered_bytes"][given_up] = world.messages["size_bytes"][3]
    world.unfinished["size_bytes"][given_up] = world.messages["size_bytes"][3]
    world.drained["flows"] = np.concatenate([world.drained["flows"], late])
    return world


def test_a_message_given_up_and_delivered_is_not_contradicted() -> None:
    """Claim of trace_format.md: delivered is what the receiver has all of. Its bytes, the heading
    and the count of given-up ones agree."""
    run = run_of(arrived_world(), "stuck")
    size = size_text(int(run.columns("flows", "size_bytes")["size_bytes"][3]))
    assert unfinished_reasons(run)[0].endswith(
        f": {size} of {size} delivered; waits for nothing: retries exhausted"
    )
    text = printed(print_result, run.summary)
    assert "297 finished, 3 unfinished" in text
    assert "1 of the unfinished given up by their sender; of these 1 delivered" in text
    assert "given up" not in printed(print_result, run_of(only_finished()).summary)


def only_finished() -> World:
    """A run in which every message finishes."""
    return make_world(3)


def test_bins_with_messages_missing_say_how_many_are_done() -> None:
    """Claim: where times are those of fewer messages than the bin has, `done` tells of how many;
    authority: the counts of the summary, row by row. Elsewhere there is no such column."""
    s = run_of(make_world(300)).summary
    text = printed(print_result, s)
    table = text[text.index("Flows by size") :].split("\n\n")[0].splitlines()
    assert "times of those done (delivered)" in table[0]
    assert table[2].split()[:3] == ["size", "flows", "done"]
    bins = s["flows"]["by_size"]
    pairs = [(row["flows"], row["delivered"]) for row in bins]
    pairs.append((sum(f for f, _ in pairs), sum(d for _, d in pairs)))
    assert [tuple(map(int, line.split()[1:3])) for line in table[3:]] == pairs
    assert any(flows != done for flows, done in pairs)
    plain = printed(print_result, run_of(only_finished()).summary)
    assert "done" not in plain.replace("end: done", "") and "bytes" in plain


def test_a_run_that_was_broken_off_says_that_more_was_to_come() -> None:
    """Claim: messages are submitted in chunks, so the count of a broken-off run is of those so far;
    that of a complete one is all."""
    world = make_world(300)
    assert "300 flows submitted so far, " in printed(
        print_result, run_of(world, "interrupted").summary
    )
    assert "submitted" not in printed(print_result, run_of(world, "done").summary)


def test_the_mean_says_that_idle_ports_count() -> None:
    """Claim: three of four fabric ports are idle, and the mean is a quarter of the fourth's; the
    title says so."""
    world = make_world(20)
    world.ports["queue_byte_ps"][:] = 0
    world.ports["queue_byte_ps"][9] = 4000.0 * ENGINE["now_ps"]
    s = run_of(world).summary
    assert s["ports"]["fabric"]["queue_mean_bytes"] == 1000
    assert "p99 and mean over all n ports, idle ones too" in printed(print_result, s)


# unfinished messages


def test_reasons_of_unfinished_messages() -> None:
    """Claim: one line each with hosts, bytes, what it waits for, where, until when."""
    world = make_world(300)
    world.messages["size_bytes"][[3, 5, 7]] = 64_000
    world.unfinished["size_bytes"], world.unfinished["delivered_bytes"] = (
        64_000,
        [0, 64_000, 32_000],
    )
    world.unfinished["src"], world.unfinished["dst"] = 1, 2
    assert unfinished_reasons(run_of(world, "stuck", background=False)) == [
        "flow 3, h1 -> h2: 0B of 64KB delivered; waits for nothing: retries exhausted",
        "flow 5, h1 -> h2: 64KB of 64KB delivered; "
        "waits for the acknowledgement of delivered data, timer at 60us",
        "flow 7, h1 -> h2: 32KB of 64KB delivered; waits for a paused class at leaf0:2",
    ]


def test_background_and_cut_messages_are_not_listed() -> None:
    """Claim: background messages need no reason; of a run with `until`, only given-up ones have
    one."""
    assert unfinished_reasons(run_of(make_world(300), "stuck", background=True)) == []
    assert [
        line[:7] for line in unfinished_reasons(run_of(make_world(300), "until", background=False))
    ] == ["flow 3,"]


def test_many_unfinished_messages_are_ten_and_a_count() -> None:
    """Claim: at most ten lines, then how many more."""
    world = make_world(300)
    world.unfinished = np.zeros(25, rows.UNFINISHED_ROW)
    world.unfinished["flow"], world.unfinished["port"], world.unfinished["until_ps"] = (
        np.arange(25),
        -1,
        -1,
    )
    lines = unfinished_reasons(run_of(world, "stuck", background=False))
    assert len(lines) == 11 and lines[-1].startswith("and 15 more")


# trace info, tables, head


def test_info_tables_and_head_of_a_file(tmp_path: Path) -> None:
    """Claim: they show how the run ended, every column with its unit, and the first rows."""
    path = tmp_path / "run.h5"
    record(TraceWriter(path), make_world(60))
    run = open_tables(path)
    info = printed(print_info, run)
    for expected in (
        str(path)[:40],
        "emunet/1",
        "4 hosts, 3 switches, 12 ports",
        "60 rows",
        "unfinished: flow 7",
    ):
        assert expected in info, expected
    tables = printed(print_tables, run, width=100)
    assert (
        "/samples/queues: 300 rows" in tables and "fct_rx_ps" in tables and "bytes * ps" in tables
    )
    head = printed(lambda *a: print_head(*a), run, "packets", 3)
    assert head.rstrip().endswith("/packets: 3 of 300 rows") and "occupancy_bytes" in head
    assert max(len(line) for line in head.splitlines()) <= 80


def test_tables_not_recorded_are_named(tmp_path: Path) -> None:
    """Claim: a table that is not there is said not to be recorded; its head has no rows."""
    with TraceWriter(tmp_path / "run.h5") as writer:
        begin(writer, packets=False)
        feed(writer, make_world(9))
    run = open_tables(tmp_path / "run.h5")
    assert "/packets: not recorded" in printed(print_tables, run)
    assert printed(lambda *a: print_head(*a), run, "packets", 3) == "/packets: 0 of 0 rows\n"


def test_names_of_tables() -> None:
    """Claim: a table goes by its path or its last part; others are refused with the nearest and
    all names."""
    assert [table_name(t) for t in ("flows", "/flows", "queues", "samples/queues")] == [
        "flows"
    ] * 2 + ["samples/queues"] * 2
    with pytest.raises(EmunetError, match=r'"flow" is not a table .* did you mean "flows"'):
        table_name("flow")


def test_words() -> None:
    """Claim: three significant digits, a dash for nothing, and 0.9999 is not shown as 1."""
    assert [time_text(61_345_678), time_text(None), size_text(2_097_152)] == [
        "61.3us",
        "-",
        "2.1MB",
    ]
    assert [ratio_text(r) for r in (1.0, 0.9999, 0.5, 12.34, 1234.5, None)] == [
        "1.00",
        "0.9999",
        "0.50",
        "12.3",
        "1.23k",
        "-",
    ]
    assert [per_second_text(r) for r in (31_415_926.0, 999.0, 2.5e3, None)] == [
        "31.4 M",
        "999",
        "2.5 k",
        "-",
    ]
