"""Pages that were answered: given again while they are true, and bounded."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from tallymark.service.kept_pages import MOST_BYTES, Cache


def test_a_page_is_given_again_only_under_its_tag() -> None:
    pages: Cache[bytes] = Cache(MOST_BYTES, len)
    pages.keep("top", "one", b"1")
    assert pages.find("top", "one") == b"1"
    assert pages.find("top", "two") is None
    pages.keep("top", "two", b"22")
    assert (pages.find("top", "two"), pages.size) == (b"22", 2)


def test_what_was_not_asked_for_of_late_goes_first() -> None:
    pages: Cache[bytes] = Cache(4, len)
    pages.keep("a", "", b"aa")
    pages.keep("b", "", b"bb")
    assert pages.find("a", "") == b"aa"
    pages.keep("c", "", b"cc")
    assert pages.find("b", "") is None
    assert (pages.find("a", ""), pages.find("c", ""), pages.size) == (b"aa", b"cc", 4)


def test_a_page_that_is_larger_than_all_is_not_kept() -> None:
    pages: Cache[bytes] = Cache(4, len)
    pages.keep("a", "", b"aaaaa")
    assert (pages.find("a", ""), pages.size) == (None, 0)


def test_of_many_who_want_a_page_one_makes_it() -> None:
    pages: Cache[bytes] = Cache(MOST_BYTES, len)
    made = []
    together = threading.Barrier(8)

    def make() -> bytes:
        made.append(1)
        return b"page"

    def want() -> bytes:
        together.wait()
        return pages.find_or_make("top", "one", make)

    with ThreadPoolExecutor(8) as pool:
        wanted = [pool.submit(want) for _ in range(8)]
    assert {each.result() for each in wanted} == {b"page"}
    assert len(made) == 1
