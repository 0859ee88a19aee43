"""A system that refuses single system calls, as NFS, Lustre and sandboxes do: a C library that is loaded before the
system's own.

`environment(directory)` returns the environment in which a program has the library. The program sets `REFUSED` at any
time to choose the refused calls: "close:EIO:.jsonl flock:ENOLCK:" refuses `close` of a file with that suffix (the file
is closed nevertheless, as on Linux) and every `flock`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static const struct { const char *name; int number; } ERRORS[] = {
    {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EPERM", EPERM}, {"EINVAL", EINVAL},
    {"ENOSYS", ENOSYS}, {"EOPNOTSUPP", EOPNOTSUPP}, {"ENOLCK", ENOLCK},
};

static int refused(const char *call, const char *path) {
    const char *told = getenv("REFUSED");
    char copy[1000], *rest, *one;
    if (!told || strlen(told) >= sizeof copy) return 0;
    strcpy(copy, told);
    for (one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        char *error = strchr(one, ':'), *end = error ? strchr(error + 1, ':') : NULL;
        if (!end) continue;
        *error++ = *end++ = 0;
        size_t long_path = strlen(path), long_end = strlen(end);
        if (strcmp(one, call) || long_path < long_end || strcmp(path + long_path - long_end, end)) continue;
        for (size_t n = 0; n < sizeof ERRORS / sizeof *ERRORS; n++)
            if (!strcmp(error, ERRORS[n].name)) return ERRORS[n].number;
    }
    return 0;
}

static int refused_file(const char *call, int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return refused(call, path);
}

#define FRONT(type, name, declared, given, fd) \
    type name declared { \
        static type (*own) declared; \
        if (!own) own = dlsym(RTLD_NEXT, #name); \
        int error = refused_file(#name, fd); \
        if (error && strcmp(#name, "close")) { errno = error; return -1; } \
        type result = own given; \
        if (error) { errno = error; return -1; } \
        return result; \
    }

FRONT(int, close, (int fd), (fd), fd)
FRONT(int, flock, (int fd, int how), (fd, how), fd)
FRONT(int, fsync, (int fd), (fd), fd)
FRONT(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), fd)
FRONT(ssize_t, writev, (int fd, const struct iovec *data, int count), (fd, data, count), fd)

int renameat2(int one, const char *from, int other, const char *to, unsigned int how) {
    static int (*own)(int, const char *, int, const char *, unsigned int);
    if (!own) own = dlsym(RTLD_NEXT, "renameat2");
    int error = refused("renameat2", to);
    if (error) { errno = error; return -1; }
    return own(one, from, other, to, how);
}
"""


def environment(directory: Path) -> dict[str, str]:
    """Return the environment of a program with the library. Skip the test if the library cannot be built."""
    return environment_with(_SOURCE, directory / "refusing.so")


def environment_with(source: str, library: Path) -> dict[str, str]:
    """Build a C library, and return the environment of a program that loads it before the system's own.

    Skip the test if the library cannot be built.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not Path("/proc/self/fd").is_dir():
        pytest.skip("no C compiler, or no /proc")
    code = library.with_suffix(".c")
    code.write_text(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, code, "-ldl"], check=True, capture_output=True)
    return {**os.environ, "LD_PRELOAD": str(library)}
