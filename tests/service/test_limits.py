"""Rate limits: by key and class of routes, known before they are hit."""

from __future__ import annotations

import pytest

from tallymark.errors import InvalidInput, TooMany
from tallymark.service.callers import Caller
from tallymark.service.limits import (
    A_MINUTE,
    ROUTE_CLASSES,
    RateLimits,
    RouteClass,
    group_address,
    read_limits,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def caller(key: str | None = "key_1", role: str = "viewer", address: str = "192.0.2.7") -> Caller:
    return Caller("default", role, "x", owner=key, key_id=key, address=address)  # type: ignore[arg-type]


def use_up(limits: RateLimits, who: Caller, route_class: RouteClass = "work") -> int:
    """How many requests are let through at once."""
    count = 0
    try:
        while True:
            limits.check(who, route_class)
            count += 1
    except TooMany:
        return count


def test_what_is_used_up_comes_back_with_time() -> None:
    clock = Clock()
    limits = RateLimits(clock=clock)
    assert use_up(limits, caller()) == 120
    with pytest.raises(TooMany, match="120 requests a minute are allowed here") as refused:
        limits.check(caller(), "work")
    assert refused.value.retry_after == pytest.approx(0.5)
    clock.now += 0.5
    assert limits.check(caller(), "work").remaining == 0
    clock.now += 3600.0
    assert limits.check(caller(), "work").remaining == 119


def test_keys_classes_and_addresses_have_their_own() -> None:
    limits = RateLimits(clock=Clock())
    use_up(limits, caller())
    limits.check(caller("key_2"), "work")
    limits.check(caller(), "read")
    nobody = caller(None, "anonymous")
    use_up(limits, nobody)
    with pytest.raises(TooMany):
        limits.check(caller(None, "anonymous"), "work")
    limits.check(caller(None, "anonymous", "192.0.2.8"), "work")


def test_keys_that_are_tried_count_for_the_address() -> None:
    limits = RateLimits(clock=Clock())
    use_up(limits, caller("key_1"), "sign-in")
    with pytest.raises(TooMany):
        limits.check(caller("key_2"), "sign-in")


def test_a_batch_counts_as_many_as_it_has() -> None:
    limits = RateLimits(of_tenant=lambda _: {"report": 100}, clock=Clock())
    assert limits.check(caller(), "report", 60).remaining == 40
    with pytest.raises(TooMany):
        limits.check(caller(), "report", 41)


def test_a_batch_larger_than_a_minute_is_paid_for_afterwards() -> None:
    clock = Clock()
    limits = RateLimits(of_tenant=lambda _: {"report": 60}, clock=clock)
    limits.check(caller(), "report", 180)
    clock.now += 119.0
    with pytest.raises(TooMany):
        limits.check(caller(), "report")
    clock.now += 2.0
    limits.check(caller(), "report")


def test_limits_can_be_read_before_they_are_hit() -> None:
    limits = RateLimits(clock=Clock())
    limits.check(caller(), "work", 20)
    found = {each.route_class: each for each in limits.look(caller())}
    assert set(found) == set(ROUTE_CLASSES)
    assert (found["work"].a_minute, found["work"].remaining) == (120, 100)
    assert found["work"].reset_s == pytest.approx(10.0)
    assert found["read"].remaining == A_MINUTE["read"]["viewer"]


def test_a_tenant_may_have_other_limits_and_strangers_no_higher_ones() -> None:
    limits = RateLimits(of_tenant=lambda _: {"read": 1_000_000}, clock=Clock())
    assert limits.find_limit(caller(), "read") == 1_000_000
    assert limits.find_limit(caller(None, "anonymous"), "read") == 600


def test_every_class_has_a_limit_for_every_role() -> None:
    roles = {"anonymous", "viewer", "agent", "reporter", "organiser"}
    assert set(A_MINUTE) == set(ROUTE_CLASSES)
    assert all(set(each) == roles for each in A_MINUTE.values())
    assert RateLimits().find_limit(caller(role="admin"), "read") == A_MINUTE["read"]["organiser"]


def test_buckets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.service.limits._MOST_BUCKETS", 100)
    clock = Clock()
    limits = RateLimits(clock=clock)
    for number in range(1000):
        clock.now += 0.01
        limits.check(caller(f"key_{number}"), "read")
    assert len(limits._buckets) <= 101


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("testclient", "testclient"),
        (None, "unknown"),
    ],
)
def test_an_ipv6_customer_is_one_address(address: str | None, group: str) -> None:
    assert group_address(address) == group


def test_limits_are_read_as_people_write_them() -> None:
    assert read_limits(["report=12000", "read=60"]) == {"report": 12000, "read": 60}
    for text, message in (
        ("reprot=1", "did you mean 'report'"),
        ("report", "'' is no limit of report"),
        ("report=-1", "'-1' is no limit"),
        ("report=0", "'0' is no limit"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_limits([text])
