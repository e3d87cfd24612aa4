"""What a contest takes from a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tallymark.client.competing.contest import Contest, Entrance
from tallymark.errors import WorkFailed


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/cron.d", "a/b", ".", "a$(id)", "a\x1b[2J", "", "a1\n", "a" * 65]
)
def test_an_attempt_is_not_called_like_another_folder(name: str) -> None:
    """Its folder is called by its id, and so is it in the command to go on with."""

    def enter(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(attempt=SimpleNamespace(id=name))

    client: Any = SimpleNamespace(challenges=SimpleNamespace(enter=enter))
    contest = Contest(client, print, "tally.example")
    with pytest.raises(WorkFailed, match="which is no id of one") as caught:
        contest.enter(Entrance(challenge="sums"))
    assert "\x1b" not in str(caught.value)
    assert contest.entered is None
