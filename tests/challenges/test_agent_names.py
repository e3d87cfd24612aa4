"""Handles and display names: what may be one, and what looks like another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.challenges.agent_names import (
    check_display_name,
    check_handle,
    label_agent,
    make_skeleton,
    propose_handle,
)
from tallymark.errors import InvalidInput


@pytest.mark.parametrize(
    ("name", "handle"),
    [
        ("Acme Bot", "acme-bot"),
        ("\u0391cme", "acme"),  # a Greek alpha
        ("  Bj\u00f6rn_2 ", "bjorn_2"),
        ("a", "agent-a"),
        ("\u65e5\u672c", "agent"),
        ("", "agent"),
        ("system", "system-2"),
        ("x" * 50, "x" * 40),
        ("a" + "-" * 45 + "b", "a-b"),
    ],
)
def test_a_name_that_is_no_handle_comes_with_one_that_is(name: str, handle: str) -> None:
    with pytest.raises(InvalidInput, match=f"is no handle of an agent; take '{handle}', for"):
        check_handle(name)
    check_handle(handle)


@given(st.text(max_size=50))
def test_every_name_comes_to_a_handle(name: str) -> None:
    check_handle(propose_handle(name))


@given(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,38}[a-z0-9]", fullmatch=True))
def test_a_handle_is_its_own_proposal_and_may_be_shown(handle: str) -> None:
    if handle != "system":
        check_handle(handle)
        assert propose_handle(handle) == handle
        check_display_name(handle)
    assert " " not in make_skeleton(handle)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("\u0391cme", "mixes letters of several scripts \\(greek, latin\\)"),
        ("\uff21cme", "plain letters, as 'Acme'"),
        ("\U0001d400cme", "plain letters, as 'Acme'"),
        ("Ac\u200bme", "invisible character U\\+200B"),
        ("Ac\u00adme", "invisible character U\\+00AD"),
        ("Acme\u3164", "invisible character U\\+3164"),
        ("Acme\ufe0f", "invisible character U\\+FE0F"),
        ("Acme\U000e0041", "invisible character U\\+E0041"),
        ("\u202eemcA", "invisible character U\\+202E"),
        ("\x1b]0;x\x07", "invisible character U\\+001B"),
        ("Bob\x9b2J", "invisible character U\\+009B"),
        ("Bob\nRank 1", "invisible character U\\+000A"),
        ("Bob\ud800", "invisible character U\\+D800"),
        ("Bob ", "begins or ends with a space"),
        ("Bob  B", "one that is not plain"),
        ("Bob\u00a0B", "one that is not plain"),
        ("Acme (acme)", "brackets"),
        ("=HYPERLINK", "begin with a letter or a digit"),
        ("B\u1ecd\u0329\u0331b", "piles up marks"),
        ("", "1 to 60"),
        ("x" * 61, "1 to 60"),
    ],
)
def test_names_that_could_be_misread_are_refused(name: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        check_display_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "Acme Corp.",
        "\u00dcn\u00efted & S\u00f6hne",
        "\u65e5\u672c Bot",
        "R2-D2",
        "\u0415\u0432\u0430",
        "X",
    ],
)
def test_other_names_are_free(name: str) -> None:
    check_display_name(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Acme", "ACME"),
        ("acme", "\u0410\u0421\u041c\u0415"),  # all Cyrillic
        ("neo", "\u039d\u0395\u039f"),  # all Greek
        ("bob", "b0b"),
        ("AI", "al"),
        ("modern", "modem"),
        ("Acme Bot", "acme_bot"),
        ("bob", "bob\u200b "),
        ("acme", "\uff21\uff43\uff4d\uff45"),
        ("Lodz", "\u0141\u00f3d\u017a"),
    ],
)
def test_names_that_look_alike_have_one_skeleton(one: str, other: str) -> None:
    assert make_skeleton(one) == make_skeleton(other)


@pytest.mark.parametrize(
    ("one", "other"), [("agent-1", "agent-11"), ("ann", "anna"), ("a.b", "a-b")]
)
def test_names_that_do_not_have_two(one: str, other: str) -> None:
    assert make_skeleton(one) != make_skeleton(other)


def test_a_handle_is_shown_where_the_name_is_another() -> None:
    assert label_agent("acme", "acme") == "acme"
    assert label_agent("acme", "Acme Corp.") == "Acme Corp. (acme)"
