"""Plays every story, or those of some topics, shows what has changed, and keeps it after a yes.

`make golden-update`, or `python -m tests.golden.update TOPIC...`.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from tests.golden.corpus import EXPECTED, Story, expected, stories, topics
from tests.golden.stage import load_zygote, opened

COLOURS = {"-": "31", "+": "32", "@": "36"}
Transcripts = dict[str, dict[str, str]]
"""By topic and by the name of a story."""


def difference(topic: str, name: str, before: str, now: str) -> list[str]:
    """What has changed in one story: lines of a unified difference."""
    old, new = (f"{topic}: {name}, {when}" for when in ("as expected", "as it is now"))
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), old, new, lineterm="")
    return list(lines)


def differences(before: Transcripts, now: Transcripts) -> Iterator[str]:
    """Of all stories; one that is new has nothing before, one that is gone nothing now."""
    for topic in sorted({*before, *now}):
        old, new = before.get(topic, {}), now.get(topic, {})
        for name in dict.fromkeys([*new, *old]):
            yield from difference(topic, name, old.get(name, ""), new.get(name, ""))


def played(told: list[Story]) -> Transcripts:
    """Every story, by two zygotes, as there are two cores nearly everywhere."""
    with ThreadPoolExecutor(2) as pool:
        texts = [text for part in pool.map(_play_all, (told[::2], told[1::2])) for text in part]
    by_story = dict(zip([*told[::2], *told[1::2]], texts, strict=True))
    found: Transcripts = {}
    for story in told:
        found.setdefault(story.topic, {})[story.name] = by_story[story]
    return found


def write(now: Transcripts) -> None:
    """Write a file for each topic; remove files of topics without a story."""
    with_stories = {story.topic for story in stories()}
    for path in EXPECTED.glob("*.txt"):
        if path.stem not in with_stories:
            path.unlink()
    for topic, texts in now.items():
        (EXPECTED / f"{topic}.txt").write_text("\n".join(texts.values()), "utf-8")


def main(*only: str) -> int:
    """0 when nothing has changed or the change was accepted, 1 when it was not."""
    wanted = set(only) or {*topics()} | {story.topic for story in stories()}
    before = {topic: expected(topic) for topic in topics() if topic in wanted}
    now = played([story for story in stories() if story.topic in wanted])
    lines = list(differences(before, now))
    if not lines:
        sys.stdout.write("nothing changed\n")
        return 0
    sys.stdout.writelines(_shown(lines))
    if not _agreed():
        sys.stdout.write("left as it was\n")
        return 1
    write(now)
    return 0


def _play_all(told: list[Story]) -> list[str]:
    with closing(load_zygote()) as zygote, opened(zygote) as stage:
        return [stage.play(story) for story in told]


def _shown(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        colour = COLOURS.get(line[:1]) if sys.stdout.isatty() else None
        yield f"{line}\n" if colour is None else f"\033[{colour}m{line}\033[0m\n"


def _agreed() -> bool:
    if os.environ.get("YES") == "1":
        return True
    if not sys.stdin.isatty():
        sys.stdout.write("this needs a yes: say it on a terminal, or with YES=1\n")
        return False
    return input("Is this how it should be? yes/no: ").strip().lower() in {"y", "yes"}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
