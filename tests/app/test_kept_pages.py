"""Pages that were answered: given again while they are true, and bounded."""

from __future__ import annotations

from tallymark.app.kept_pages import KeptPages


def test_a_page_is_given_again_only_under_its_tag() -> None:
    pages = KeptPages()
    pages.keep("top", "one", b"1")
    assert pages.find("top", "one") == b"1"
    assert pages.find("top", "two") is None
    pages.keep("top", "two", b"22")
    assert (pages.find("top", "two"), pages.nbytes) == (b"22", 2)


def test_what_was_not_asked_for_of_late_goes_first() -> None:
    pages = KeptPages(most_bytes=4)
    pages.keep("a", "", b"aa")
    pages.keep("b", "", b"bb")
    assert pages.find("a", "") == b"aa"
    pages.keep("c", "", b"cc")
    assert pages.find("b", "") is None
    assert (pages.find("a", ""), pages.find("c", ""), pages.nbytes) == (b"aa", b"cc", 4)


def test_a_page_that_is_larger_than_all_is_not_kept() -> None:
    pages = KeptPages(most_bytes=4)
    pages.keep("a", "", b"aaaaa")
    assert (pages.find("a", ""), pages.nbytes) == (None, 0)
