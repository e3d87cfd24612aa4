"""Seccomp: the system calls that sandboxed code may make. What is not in a table is refused.

Most refusals look to the code like a missing permission. Calls that only an attack makes end the
process.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tallymark.sandbox.kernel_calls import forbid_new_privileges, prepare_control

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEMORY = "brk madvise mprotect mremap msync munmap mincore"
_FILES = """
access chdir close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64
fallocate fchdir fdatasync fstat fsync ftruncate getcwd getdents getdents64 lseek link
linkat lstat mkdir mkdirat newfstatat open openat openat2 pipe pipe2 pread64 preadv preadv2 pwrite64
pwritev pwritev2 read readahead readlink readlinkat readv rename renameat renameat2 rmdir sendfile
stat statx symlink symlinkat truncate umask unlink unlinkat write writev
"""
_WAITING = """
alarm clock_nanosleep epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait
eventfd eventfd2 getitimer nanosleep pause poll ppoll pselect6 select setitimer timerfd_create
timerfd_gettime timerfd_settime futex
"""
_SELF = """
arch_prctl capget clock_getres clock_gettime exit exit_group get_robust_list getcpu getegid geteuid
getgid getgroups getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit
getrusage getsid gettid gettimeofday getuid membarrier restart_syscall rseq rt_sigaction
rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getparam sched_getscheduler sched_yield
set_robust_list set_tid_address setrlimit sigaltstack sysinfo time times uname
"""
# A pair of connected sockets, as asyncio makes, leads nowhere else.
_PAIR = "recvfrom recvmsg getsockname getpeername getsockopt shutdown"
_OTHERS = "fork kill rt_sigqueueinfo setpgid setsid tkill vfork wait4 waitid sched_setaffinity"
_PROCESSES = f"{_OTHERS} tgkill"
_ABORT = 6
_SOME_PID = 0x7A11C0DE
"""Stands for the process's own number until `Filter.load` puts that in its place."""
_ATTRIBUTES = """
chmod fchmod fchmodat fchmodat2 fstatfs futimesat getxattr lgetxattr fgetxattr listxattr llistxattr
flistxattr statfs utime utimensat utimes
"""
"""Attributes of files, and the space on a file system: on a shared one, code could leave notes
in them for its next call."""
_GUEST = """
capset landlock_add_rule landlock_create_ruleset landlock_restrict_self pidfd_open
pidfd_send_signal sendmsg
"""
_NOT_SHARED = (0x00, 0x01, 0x20)
_SHARED_ANONYMOUS = 0x21
"""Flags of `mmap`: all but memory without a file that processes can share. Pages of it stay after
they are unmapped, for as long as one page is mapped, and no process is seen to hold them. Shared
memory that is a file counts with the scratch folder."""
_SHOW_MEMORY = 4
_ATTACKS = """
acct add_key adjtimex bpf clock_adjtime clock_settime chroot delete_module fanotify_init
finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter io_uring_register
io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie memfd_secret mount
mount_setattr move_mount name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open
pidfd_getfd pivot_root process_madvise process_mrelease process_vm_readv process_vm_writev ptrace
quotactl quotactl_fd reboot request_key setdomainname sethostname setns settimeofday swapoff swapon
syslog umount umount2 unshare userfaultfd vhangup
"""
_SAFE_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Is it a terminal, how wide, bytes waiting, blocking or not, closed at exec or not."""
_SAFE_FCNTLS = (0, 1, 2, 3, 4, 5, 36, 1024 + 6, 1024 + 7, 1024 + 8)
"""Duplicate, flags, who holds a lock, and a pipe's size: not who gets a signal, nor leases."""
_LOCK_FCNTLS = (6, 7, 37, 38)
"""Locks on files, which seem to succeed and do nothing: by a lock on a file that others can open,
such as the null device, code would leave notes for its next call and for other sandboxes. What
can only be opened here needs none, so SQLite and the like work."""
_SAFE_CONTROLS = (1, 2, 3, 15, 16, 39)
"""Death signal of the parent, dumpable, the thread's name, and if new privileges are forbidden."""
_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW flag that `clone` takes
_NEW_NUMBERS = 0x20000000
_UNIX, _STREAM, _SOCKET_TYPES = 1, 1, 0xF
_SET_SECCOMP, _NO_NEW_PRIVS, _FILTER = 22, 38, 2
_INSTRUCTION_BYTES = 8


def load(code: bytes) -> None:
    """Bind this process and its children, for good, to a filter that was made here or elsewhere."""
    forbid_new_privileges()  # without it the kernel takes no filter from an ordinary user
    Filter(code).load()


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


class Filter:
    """A filter made ready, to be loaded by a process forked from this one."""

    def __init__(self, code: bytes) -> None:
        words = self._words = (ctypes.c_uint32 * (len(code) // 4)).from_buffer_copy(code)
        self._numbers = [at for at, word in enumerate(words) if word == _SOME_PID]
        fields = _FilterProgram(len(code) // _INSTRUCTION_BYTES, ctypes.addressof(words))
        self._load = prepare_control(_SET_SECCOMP, _FILTER, ctypes.byref(fields))

    def load(self) -> None:
        """Bind this process and its children, for good, after forbidding privileges."""
        for at in self._numbers:
            self._words[at] = os.getpid()
        self._load()


@functools.cache
def program(*, fork: bool, exec: bool, attributes: bool = False) -> bytes:  # noqa: A002
    """A filter as the kernel takes it.

    `fork` allows processes and threads of its own and signals to them, `exec` other programs,
    `attributes` modes and times of files and how full its file system is: only where every file
    in view is its own.
    """
    names = [_PROCESSES] * fork + [_ATTRIBUTES] * attributes + ["execve"] * exec
    rules = _start_allow_list(*names)
    _allow_by_argument(rules, fork=fork)
    library = _load_library()
    for flags in _NOT_SHARED:
        private = library.Arg(3, library.MASKED_EQ, _SHARED_ANONYMOUS, flags)
        rules.add_rule(library.ALLOW, "mmap", private)
    return _export(rules)


@functools.cache
def guest_program() -> bytes:
    """For a guest: what its children may do, and what it takes to make them."""
    rules = _start_allow_list(_PROCESSES, _ATTRIBUTES, _GUEST, "mmap")
    controls = (_SET_SECCOMP, _NO_NEW_PRIVS, _SHOW_MEMORY)
    _allow_by_argument(rules, fork=True, controls=controls)
    library = _load_library()
    numbered_apart = library.Arg(0, library.MASKED_EQ, _NEW_NAMESPACES, _NEW_NUMBERS)
    rules.add_rule(library.ALLOW, "clone", numbered_apart)
    return _export(rules)


@functools.cache
def child_program() -> bytes:
    """For a guest's child: takes away again what only the guest needs.

    Both filters hold. This one is short, because every call pays for loading it.
    """
    library = _load_library()
    rules = library.SyscallFilter(library.ALLOW)
    refused = library.ERRNO(errno.EPERM)
    _add_each(rules, refused, f"{_OTHERS} {_ATTRIBUTES} {_GUEST} clone")
    shared = library.Arg(3, library.MASKED_EQ, _SHARED_ANONYMOUS, _SHARED_ANONYMOUS)
    rules.add_rule(refused, "mmap", shared)
    rules.add_rule(refused, "prctl", library.Arg(0, library.EQ, _SHOW_MEMORY))
    # A process that gives up sends itself SIGABRT. Refused that, it crashes as if by mistake.
    rules.add_rule(refused, "tgkill", library.Arg(0, library.NE, _SOME_PID))
    rules.add_rule(refused, "tgkill", library.Arg(2, library.NE, _ABORT))
    return _export(rules)


def _start_allow_list(*names: str) -> Any:
    library = _load_library()
    rules = library.SyscallFilter(library.ERRNO(errno.EPERM))
    with suppress(OSError):  # an old libseccomp makes a slower filter
        # As a tree: a call is looked up in a few steps, not compared with name after name.
        rules.set_attr(library.Attr.CTL_OPTIMIZE, 2)
    _add_each(rules, library.ALLOW, " ".join((_MEMORY, _FILES, _WAITING, _SELF, _PAIR, *names)))
    _add_each(rules, library.KILL_PROCESS, _ATTACKS)
    # The C library then asks with `clone`, whose flags a filter can see.
    _add_each(rules, library.ERRNO(errno.ENOSYS), "clone3")
    return rules


def _export(rules: Any) -> bytes:
    with os.fdopen(os.memfd_create("filter"), "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def _load_library() -> Any:
    # Late: only the host has it, while this module is loaded inside too, and it starts programs to
    # find libseccomp, or raises when there is none, which `tally doctor` reports.
    import pyseccomp  # type: ignore[import-untyped]  # noqa: PLC0415

    return pyseccomp


def _add_each(rules: Any, action: int, names: str) -> None:
    for name in names.split():
        with suppress(OSError):  # a name that this libseccomp does not know stays refused
            rules.add_rule(action, name)


def _allow_by_argument(rules: Any, *, fork: bool, controls: Sequence[int] = ()) -> None:
    """Allow calls that are harmless with some arguments only."""
    library = _load_library()
    allow, argument = library.ALLOW, library.Arg
    for name, place, values in (
        ("ioctl", 1, _SAFE_IOCTLS),
        ("fcntl", 1, _SAFE_FCNTLS),
        ("prctl", 0, (*_SAFE_CONTROLS, *controls)),
        ("prlimit64", 0, (0,)),  # its own limits only
        ("sendto", 4, (0,)),  # to the other end of the pair, not to an address
    ):
        for value in values:
            rules.add_rule(allow, name, argument(place, library.EQ, value))
    _add_each(rules, library.ERRNO(0), "flock")
    for value in _LOCK_FCNTLS:
        rules.add_rule(library.ERRNO(0), "fcntl", argument(1, library.EQ, value))
    stream = argument(1, library.MASKED_EQ, _SOCKET_TYPES, _STREAM)
    rules.add_rule(allow, "socketpair", argument(0, library.EQ, _UNIX), stream)
    if fork:
        rules.add_rule(allow, "clone", argument(0, library.MASKED_EQ, _NEW_NAMESPACES, 0))
