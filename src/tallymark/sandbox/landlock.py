"""Landlock: the kernel denies this process and its children files, network and signals.

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from tallymark.sandbox.kernel_calls import forbid_new_privileges, prepare, system_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_ALL_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Every right over files that an ABI knows, by the first ABI that knows them."""
_ALL_NET = 0b11  # bind and connect over TCP, from ABI 4
_ALL_SCOPES = 0b11  # abstract sockets and signals, from ABI 6

_READ = _READ_FILE | _READ_DIR
# No links, devices, pipes or sockets: a scratch folder holds plain files and folders.
_WRITE = (
    _READ | _WRITE_FILE | _TRUNCATE | _REMOVE_FILE | _REMOVE_DIR | _MAKE_DIR | _MAKE_REG | _REFER
)
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    _pack_ = 1  # the kernel's struct has no padding, and it refuses another size
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def abi() -> int:
    """The version of Landlock here; 0 when the kernel has none or does not use it."""
    try:
        nothing = ctypes.c_void_p(None)
        return system_call(_CREATE, nothing, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    except OSError:
        return 0


def restrict(read: Sequence[Path], write: Sequence[Path], execute: Sequence[Path] = ()) -> None:
    """Keep this process and its children to these paths, for good; also off network and others.

    What lies beneath a path of `write` may be read too, beneath one of `execute` read and started.
    A path that does not exist is left out.
    """
    with LandlockRules() as rules:
        rules.allow(read=read, write=write, execute=execute)
        built = rules.build()
    try:
        forbid_new_privileges()
        prepare_enforcing(built)()
    finally:
        os.close(built)


class LandlockRules:
    """Rules to make rulesets of, for processes that may do the same but for a path or two."""

    def __init__(self) -> None:
        version = abi()
        if not version:
            raise RuntimeError("this kernel has no Landlock, or does not use it")
        self._handled = _ALL_FILES[max(known for known in _ALL_FILES if known <= version)]
        net, scopes = _ALL_NET if version >= 4 else 0, _ALL_SCOPES if version >= 6 else 0
        self._attributes = _Ruleset(self._handled, net, scopes)
        # An older kernel refuses a struct with fields that it does not know.
        self._size = ctypes.c_size_t(8 if version < 4 else 16 if version < 6 else 24)
        self._beneath: list[_Beneath] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for beneath in self._beneath:
            os.close(beneath.parent_fd)

    def allow(
        self, *, read: Sequence[Path] = (), write: Sequence[Path] = (), execute: Sequence[Path] = ()
    ) -> None:
        """From now on in every ruleset; a path that does not exist is left out."""
        for paths, access in ((read, _READ), (write, _WRITE), (execute, _READ | _EXECUTE)):
            for path in paths:
                with suppress(FileNotFoundError):
                    self._beneath.append(self._open_rule(path, access))

    def build(self, write: str | None = None) -> int:
        """A descriptor for `prepare_enforcing`: what is allowed so far, and writing to a path."""
        rules = system_call(_CREATE, ctypes.byref(self._attributes), self._size, ctypes.c_uint32(0))
        for beneath in self._beneath:
            _add_rule(rules, beneath)
        if write is not None:
            own = self._open_rule(write, _WRITE)
            _add_rule(rules, own)
            os.close(own.parent_fd)
        return rules

    def _open_rule(self, path: Path | str, access: int) -> _Beneath:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        # The kernel refuses a rule that gives a file the rights of a folder.
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _FILE_ONLY
        return _Beneath(access & self._handled, place)


def prepare_enforcing(rules: int) -> Callable[[], int]:
    """A prepared call that enforces the rules for good; new privileges must be forbidden first."""
    number, flags = ctypes.c_long(_RESTRICT), ctypes.c_uint32(0)
    return prepare("syscall", number, ctypes.c_int(rules), flags)


def _add_rule(rules: int, beneath: _Beneath) -> None:
    system_call(
        _ADD,
        ctypes.c_int(rules),
        ctypes.c_int(_PATH_BENEATH),
        ctypes.byref(beneath),
        ctypes.c_uint32(0),
    )
