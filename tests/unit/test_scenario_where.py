"""Packet filters: the mask equals the same expression in Python, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunet._core.rows import EVENT_KINDS, EVENT_ROW, PACKET_KINDS
from emunet.scenario.where import COLUMNS, WhereError, compile_where


def some_rows(n_row: int = 400) -> np.ndarray:
    """Rows in which every small value of every column occurs."""
    rows = np.zeros(n_row, dtype=EVENT_ROW)
    step = np.arange(n_row)
    rows["time_ps"] = step * 1_000_000
    rows["flow"] = step % 7 - 1
    rows["node"] = step % 5
    rows["port"] = step % 3
    rows["psn"] = step % 11
    rows["kind"] = step % len(EVENT_KINDS)
    rows["packet"] = step % len(PACKET_KINDS)
    rows["klass"] = step % 8
    return rows


ROWS = some_rows()


def by_python(text: str) -> np.ndarray:
    """The expression evaluated by Python for each row; times must be integers there."""
    names = [
        {name: row[column].item() for name, column in COLUMNS.items()}
        | {"kind": EVENT_KINDS[row["kind"]], "packet": PACKET_KINDS[row["packet"]]}
        for row in ROWS
    ]
    return np.array([bool(eval(text, {"__builtins__": {}}, values)) for values in names])


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("flow == 3", ""),
        ("flow == 3 and kind == 'drop'", ""),
        ("flow == -1 or node != 2", ""),
        ("not flow == 3", ""),
        ("not (flow < 3 or klass >= 6) and psn in (1, 2, 3)", ""),
        ("1 <= node < 4", ""),
        ("3 > flow", ""),
        ("kind in ('drop', 'mark')", ""),
        ("kind not in ['drop', 'mark']", ""),
        ("packet != 'data' and port == 0", ""),
        ("klass > 300", ""),
        ("klass != -1", ""),
        ("flow == 4611686018427387903", ""),
        ("time >= '100us'", "time >= 100000000"),
        ("'10us' <= time < '20us'", "10000000 <= time < 20000000"),
        ("time == 0", "time == 0"),
        ("time in ('1us', '2us')", "time in (1000000, 2000000)"),
        ("flow == 3\n  and node == 2", "flow == 3 and node == 2"),
        ("  flow == 3", "flow == 3"),
    ],
)
def test_masks(text: str, python: str) -> None:
    """The mask is that of the Python expression on each row."""
    mask = compile_where(text)(ROWS)
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, by_python(python or text))


@pytest.mark.parametrize("text", ["", "   "])
def test_blank_chooses_all(text: str) -> None:
    """docs/scenario.md: an empty filter chooses every event."""
    assert compile_where(text)(ROWS).all()
    assert len(compile_where(text)(ROWS[:0])) == 0


atoms = st.builds(
    lambda name, sign, value: f"{name} {sign} {value}",
    st.sampled_from(["flow", "node", "port", "psn", "klass"]),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.integers(-2, 12),
)
expressions = st.recursive(
    atoms,
    lambda inner: (
        st.builds(
            lambda a, word, b: f"({a}) {word} ({b})", inner, st.sampled_from(["and", "or"]), inner
        )
        | inner.map(lambda a: f"not ({a})")
    ),
    max_leaves=6,
)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(expressions)
def test_random_expressions(text: str) -> None:
    """Any nesting of and, or, not gives Python's mask."""
    np.testing.assert_array_equal(compile_where(text)(ROWS), by_python(text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("flow = 3", 'write "=="'),
        ("flow == 3 && node == 2", 'write "and", "or" and "not"'),
        ("class == 3", '"klass"'),
        ("flw == 3", 'did you mean "flow"?'),
        ("time_ps > 3", 'did you mean "time"?'),
        ("bytes > 3", "unknown name"),
        ("flow", 'compare it, such as "flow == 3"'),
        ("3", "not a comparison"),
        ("flow == node", "not a number or text"),
        ("3 == 3", "not a name"),
        ("flow == 'drop'", "not a whole number"),
        ("flow == 1.5", "not a whole number"),
        ("flow == True", "not a whole number"),
        ("flow == 4611686018427387904", "too large"),
        ("kind == 'dropp'", 'did you mean "drop"?'),
        ("kind == 2", "none of its words"),
        ("kind < 'drop'", "orders kind"),
        ("packet == 'drop'", "none of its words"),
        ("time > 5", "has no unit"),
        ("time > '5'", "has no unit"),
        ("time > '5 minutes'", "not accepted"),
        ("time > -1", "not a time"),
        ("flow in 3", 'no list after "in"'),
        ("flow in ()", 'no list after "in"'),
        ("3 in (1, 2)", "not a name"),
        ("flow is 3", 'write "=="'),
        ("(flow == 3) & (node == 2)", 'write "and"'),
        ("__import__('os').system('true') == 0", "not a name"),
        ("flow.__class__ == 3", "not a name"),
        ("[f for f in (1,)] == 3", "not a name"),
        ("lambda: flow == 3", "not a comparison"),
        ("(flow := 3) == 3", "not a name"),
        ("flow == 3; node == 2", "not an expression"),
        ("(" * 500 + "flow == 3" + ")" * 500, "not an expression"),
        ("not " * 200 + "flow == 3", "nested too deeply"),
        ("flow == 3\0", "not an expression"),
        ("flow \u2260 3", "outside ASCII"),
        ("flow == 3 or " * 300 + "flow == 3", "longer than"),
    ],
)
def test_wrong_expressions(text: str, says: str) -> None:
    """Nothing but comparisons compiles; the error says what to write."""
    with pytest.raises(WhereError) as caught:
        compile_where(text)
    assert says in str(caught.value)


def test_the_place_is_named() -> None:
    """An error in a long filter names the character."""
    with pytest.raises(WhereError, match="at character 15"):
        compile_where("flow == 3 and prot == 2")


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.text(alphabet="flow kindtme=<>!()'\"0123,andort.[]#\\\n", max_size=30))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    """No text makes the compiler fail in another way than `WhereError`."""
    try:
        compile_where(text)(ROWS)
    except WhereError as error:
        assert str(error)
