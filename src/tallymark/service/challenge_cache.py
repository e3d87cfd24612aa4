"""`ChallengeCache`: scoring rules, files and plugins of challenges, loaded once for all threads."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.challenges.attempt_formula import PLUGIN_PREFIX
from tallymark.challenges.challenge_folder import read_packed, write_files
from tallymark.challenges.plugins import SandboxedPlugin, load_plugin
from tallymark.errors import ScorerError, WorkFailed
from tallymark.sandbox import Policy, Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.challenges.attempt import Attempt
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.plugins import Plugin
    from tallymark.store import Store
    from tallymark.store.contests.challenges import StoredChallenge

_OURS = "builtin.weighted_scorer"
_PAUSES_KNOWN_S = 1.0
"""Seconds for which plugin quarantines are cached; another process may end one meanwhile."""


class ChallengeCache:
    """Thread-safe cache; `close` ends its sandbox and removes its files."""

    def __init__(self, store: Store, policy: Policy | None, clock: Callable[[], float]) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock
        self._lock = threading.RLock()
        self._sandbox: Sandbox | None = None
        self._stored: dict[str, StoredChallenge] = {}
        self._folders: dict[str, tempfile.TemporaryDirectory[str]] = {}
        self._plugins: dict[tuple[str, str], Plugin] = {}
        """By the version of the challenge, and as that calls it."""
        self._pauses: dict[str, tuple[float, dict[str, tuple[int, str]]]] = {}
        """By plugin code: the time of the query, and the quarantined agents."""

    def close(self) -> None:
        """Ends sandboxes, and removes the files that were laid out."""
        with self._lock:
            if self._sandbox is not None:
                self._sandbox.close()
                self._sandbox = None
            for folder in self._folders.values():
                folder.cleanup()
            self._folders.clear()
            self._plugins.clear()

    def find(self, name: str, *, anew: bool = False) -> StoredChallenge:
        """The version that counts, read once: what is scored by an older one, the store refuses."""
        if anew or name not in self._stored:
            self._stored[name] = self._store.challenges.find(name)
        return self._stored[name]

    def find_version(self, attempt: Attempt) -> Challenge:
        """The challenge as it was when the attempt was entered."""
        current = self.find(attempt.challenge).challenge
        if current.version == attempt.version:
            return current
        return self._store.challenges.get_version(attempt.challenge, attempt.version)

    def open_folder(self, challenge: Challenge) -> Path:
        """The files of a version, unpacked once."""
        with self._lock:
            known = self._folders.get(challenge.version)
            if known is None:
                packed = self._store.challenges.packed(challenge.name, challenge.version)
                files = read_packed(packed)
                try:
                    known = tempfile.TemporaryDirectory(prefix="tally-challenge-")
                    write_files(files, Path(known.name))
                except OSError as error:
                    raise WorkFailed(
                        f"the files of {challenge.name} cannot be laid out: {error}"
                    ) from None
                self._folders[challenge.version] = known
            return Path(known.name)

    def find_plugin(self, challenge: Challenge) -> Plugin | None:
        """The plugin that scores attempts at a version: its code read once, its pauses often."""
        if challenge.scoring.plugin is None:
            return None
        which = (challenge.version, challenge.scoring.plugin)
        with self._lock:
            known = self._plugins.get(which)
            if known is None:
                known = self._plugins[which] = self.load_unpaused(challenge, None)
        if not isinstance(known, SandboxedPlugin):
            return known
        # One for each call: what it finds of agents is the store's to count.
        return known.copy(self._find_pauses(challenge, known.code_hash))

    def load_plugin(self, challenge: Challenge, folder: Path | None = None) -> Plugin | None:
        """A plugin of one's own, its code in a folder; it knows who is paused by now."""
        if challenge.scoring.plugin is None:
            return None
        plugin = self.load_unpaused(challenge, folder)
        if isinstance(plugin, SandboxedPlugin):
            known = self._store.plugin_quarantine.known(self.find(challenge.name), plugin.code_hash)
            plugin.deaths |= known
        return plugin

    def forget_pauses(self) -> None:
        """They may be others now."""
        self._pauses.clear()

    def load_unpaused(self, challenge: Challenge, folder: Path | None = None) -> Plugin:
        """The plugin without crash counts."""
        reference = challenge.scoring.plugin or ""
        if scores_quickly(challenge):  # none of the challenge's files are in it
            return load_plugin(reference, folder=Path(), sandbox=None)
        files = self.open_folder(challenge) if folder is None else folder
        try:
            return load_plugin(reference, folder=files, sandbox=self._open_sandbox)
        except ScorerError as error:
            if str(files) not in {each.name for each in self._folders.values()}:
                raise
            # The path of the unpacked folder stays private.
            published = f"what {challenge.name} was published with"
            raise ScorerError(
                replace(each, message=each.message.replace(str(files), published))
                for each in error.problems
            ) from None

    def _find_pauses(self, challenge: Challenge, code_hash: str) -> dict[str, tuple[int, str]]:
        now = self._clock()
        read_at, known = self._pauses.get(code_hash, (None, {}))
        if read_at is None or abs(now - read_at) >= _PAUSES_KNOWN_S:
            known = self._store.plugin_quarantine.known(self.find(challenge.name), code_hash)
            self._pauses[code_hash] = (now, known)
        return known

    def _open_sandbox(self) -> Sandbox:
        with self._lock:
            if self._sandbox is None:
                self._sandbox = Sandbox(self._policy)
            return self._sandbox


def scores_quickly(challenge: Challenge) -> bool:
    """True if its rule needs no foreign code, so that scoring takes almost no time."""
    plugin = challenge.scoring.plugin
    return plugin is None or plugin.startswith(PLUGIN_PREFIX) or plugin == _OURS
