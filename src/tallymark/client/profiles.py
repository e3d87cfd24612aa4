"""Profiles of `tally login`: a server's address with the key for it.

They are in one file of the user's configuration folder, readable only by the user. It is replaced
atomically, so neither two logins at once nor a power cut leave half a file.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from tallymark.errors import InvalidInput, NotFound, WorkFailed, suggest


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server that the user has logged in to."""

    url: str
    key: str
    name: str = ""
    """Name of the key, or the agent that it acts for."""
    role: str = ""
    agent: str | None = None


class Profiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """All profiles. `current` is the one of the last login."""

    profiles: dict[str, Profile] = {}
    current: str | None = None

    def find(self, name: str) -> Profile:
        """Find a profile by its name."""
        if name not in self.profiles:
            near = suggest(name, self.profiles)
            known = f"there are: {', '.join(self.profiles)}" if self.profiles else "none is saved"
            hint = (
                f"did you mean {near!r}?"
                if near
                else f"{known}; an address begins with https:// or http://"
            )
            raise NotFound(f"no server is known as {name!r}", hint=hint)
        return self.profiles[name]

    def find_for(self, url: str) -> Profile | None:
        """Find the profile of an address; of several, the current one."""
        at_hand = self.profiles.get(self.current or "")
        all_of_them = [*([at_hand] if at_hand else []), *self.profiles.values()]
        return next((each for each in all_of_them if each.url == url), None)


def read_profiles() -> Profiles:
    """Load the profiles; none before the first login."""
    path = find_profile_file()
    try:
        kept = path.read_bytes()
        mode = path.stat().st_mode
    except FileNotFoundError:
        return Profiles()
    except OSError as error:
        raise WorkFailed(f"cannot read {path}: {error.strerror or error}") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise InvalidInput(f"{path} can be read by others", hint=f"run: chmod 600 {path}")
    try:
        return msgspec.json.decode(kept, type=Profiles)
    except msgspec.MsgspecError as error:
        hint = f"delete it, and log in again: rm {path}"
        raise InvalidInput(f"{path} is not what `tally login` writes: {error}", hint=hint) from None


def keep_profile(name: str, profile: Profile) -> None:
    """Save a profile under its name, and make it the current one."""
    with _hold(find_profile_file()) as path:
        _write(path, Profiles({**read_profiles().profiles, name: profile}, name))


def forget_profile(name: str) -> Profile:
    """Remove a profile with its key, and return it."""
    with _hold(find_profile_file()) as path:
        known = read_profiles()
        gone = known.find(name)
        left = {each: value for each, value in known.profiles.items() if each != name}
        current = next(iter(left), None) if known.current == name else known.current
        _write(path, Profiles(left, current))
    return gone


def name_profile(url: str, known: Mapping[str, Profile]) -> str:
    """Name the profile of a server: its present name, or else its host."""
    parts = urlsplit(url)
    return next((name for name, each in known.items() if each.url == url), parts.netloc)


def find_profile_file() -> Path:
    """Path of the file of profiles."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "tallymark" / "servers.json"


@contextmanager
def _hold(path: Path) -> Iterator[Path]:
    """Lock the file for a change; other changes wait."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.with_name(f"{path.name}.lock").open("w") as lock:
            if os.name == "posix":
                import fcntl  # noqa: PLC0415 (not everywhere)

                fcntl.flock(lock, fcntl.LOCK_EX)
            yield path
    except OSError as error:
        raise WorkFailed(f"cannot write {path}: {error.strerror or error}") from None


def _write(path: Path, profiles: Profiles) -> None:
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    # Created with its mode, so that others cannot read it at any moment.
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(profiles), indent=2) + b"\n")
            file.flush()
            os.fsync(handle)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
