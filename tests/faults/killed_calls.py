"""Kills work at each system call that changes files: a C library that is loaded before the system's own counts the
calls, and kills the process at one of them.

`Killer` is a process that has the library and imported everything. For each kill it forks a child, so a kill takes
milliseconds. A call that writes is killed when half of its bytes are written, and any other call before it begins.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Self

from tests.faults.refusing import environment_with
from tests.processes import ROOT

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static long killed_call, calls;

void kill_at_call(long number) { killed_call = number; calls = 0; }

static int is_last(void) { return killed_call && ++calls == killed_call; }

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

#define FRONT(type, name, declared, given) \
    type name declared { \
        static type (*own) declared; \
        if (!own) own = dlsym(RTLD_NEXT, #name); \
        if (is_last()) die(); \
        return own given; \
    }

#define WRITE(type, name, declared, half, given) \
    type name declared { \
        static type (*own) declared; \
        if (!own) own = dlsym(RTLD_NEXT, #name); \
        if (is_last()) { own half; die(); } \
        return own given; \
    }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        static int (*own)(const char *, int, ...); \
        if (!own) own = dlsym(RTLD_NEXT, #name); \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        if ((flags & (O_CREAT | O_TRUNC)) && is_last()) die(); \
        return own(path, flags, mode); \
    }

OPEN(open)
OPEN(open64)
WRITE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size / 2), (fd, data, size))
WRITE(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size / 2, at),
      (fd, data, size, at))
WRITE(ssize_t, pwrite64, (int fd, const void *data, size_t size, off_t at), (fd, data, size / 2, at),
      (fd, data, size, at))
FRONT(ssize_t, writev, (int fd, const struct iovec *data, int count), (fd, data, count))
FRONT(int, ftruncate, (int fd, off_t size), (fd, size))
FRONT(int, ftruncate64, (int fd, off_t size), (fd, size))
FRONT(int, fsync, (int fd), (fd))
FRONT(int, fdatasync, (int fd), (fd))
FRONT(int, flock, (int fd, int how), (fd, how))
FRONT(int, rename, (const char *from, const char *to), (from, to))
FRONT(int, renameat, (int one, const char *from, int other, const char *to), (one, from, other, to))
FRONT(int, renameat2, (int one, const char *from, int other, const char *to, unsigned int how),
      (one, from, other, to, how))
FRONT(int, link, (const char *from, const char *to), (from, to))
FRONT(int, unlink, (const char *path), (path))
FRONT(int, unlinkat, (int fd, const char *path, int how), (fd, path, how))
FRONT(int, mkdir, (const char *path, mode_t mode), (path, mode))
FRONT(int, chmod, (const char *path, mode_t mode), (path, mode))
FRONT(int, fchmod, (int fd, mode_t mode), (fd, mode))
FRONT(int, utimensat, (int fd, const char *path, const struct timespec *times, int how), (fd, path, times, how))
"""


class Killer:
    """A process from which children are forked that do the same work, each in a directory of its own.

    `work` is `module:function`, a function of a directory. It is done once in the directory `warm`, so that everything
    is imported.
    """

    def __init__(self, work: str, warm: Path, library: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.killed_calls", work, str(warm)],
            env=environment_with(_SOURCE, library),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def kill(self, directory: Path, call: int) -> bool:
        """Do the work in a directory, killed at a call. Return False if the work ended with fewer calls."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{call} {directory}\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in {0, -9}, code
        return code == -9


def main(work: str, warm: Path) -> None:
    """Do the work once. Then fork a child for each line of stdin, and print its exit code."""
    module, _, function = work.partition(":")
    do: Callable[[Path], None] = getattr(import_module(module), function)
    do(warm)
    kill_at_call = ctypes.CDLL(None).kill_at_call
    for line in sys.stdin:
        call, _, directory = line.rstrip("\n").partition(" ")
        pid = os.fork()
        if pid == 0:
            kill_at_call(ctypes.c_long(int(call)))
            do(Path(directory))
            kill_at_call(ctypes.c_long(0))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
