"""Keys that `tally login` keeps: a profile is a server's address and the key that is for it alone.

They lie in one file of the user's configuration folder that nobody else can read. It is written
whole under another name and then takes its place, so neither two logins at once nor a power cut
leave half a file.
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
    """A server that somebody has logged in to."""

    url: str
    key: str
    name: str = ""
    """What the key is called there, or the agent that it speaks for."""
    role: str = ""
    agent: str | None = None


class Profiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that are kept. `current` is the one that was logged in to last."""

    profiles: dict[str, Profile] = {}
    current: str | None = None

    def find(self, name: str) -> Profile:
        """One by its name."""
        if name not in self.profiles:
            near = suggest(name, self.profiles)
            known = f"there are: {', '.join(self.profiles)}" if self.profiles else "none is kept"
            hint = (
                f"did you mean {near!r}?"
                if near
                else f"{known}; an address begins with https:// or http://"
            )
            raise NotFound(f"no server is known as {name!r}", hint=hint)
        return self.profiles[name]

    def find_for(self, url: str) -> Profile | None:
        """The profile of an address, rather the current one where several have it."""
        at_hand = self.profiles.get(self.current or "")
        all_of_them = [*([at_hand] if at_hand else []), *self.profiles.values()]
        return next((each for each in all_of_them if each.url == url), None)


def read_profiles() -> Profiles:
    """What is kept; nothing where nobody has logged in."""
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
    """Keeps a profile, in the place of one with its name, and makes it the current one."""
    with _hold(find_profile_file()) as path:
        _write(path, Profiles({**read_profiles().profiles, name: profile}, name))


def forget_profile(name: str) -> Profile:
    """Takes a profile away, key and all; gives what it was."""
    with _hold(find_profile_file()) as path:
        known = read_profiles()
        gone = known.find(name)
        left = {each: value for each, value in known.profiles.items() if each != name}
        current = next(iter(left), None) if known.current == name else known.current
        _write(path, Profiles(left, current))
    return gone


def name_profile(url: str, known: Mapping[str, Profile]) -> str:
    """What a server is called whose user gave it no name: as it was, else by its host."""
    parts = urlsplit(url)
    return next((name for name, each in known.items() if each.url == url), parts.netloc)


def find_profile_file() -> Path:
    """Where profiles are kept."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "tallymark" / "servers.json"


@contextmanager
def _hold(path: Path) -> Iterator[Path]:
    """The file for one who changes it; others who want to wait."""
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
    # With its mode from the start, so that there is no moment in which others could read it.
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(profiles), indent=2) + b"\n")
            file.flush()
            os.fsync(handle)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
