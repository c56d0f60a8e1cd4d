#!/usr/bin/env python3
"""confine.py UNIT ID PROGRAM [ARGS...]: becomes the program, confined as that systemd unit says: user and group (the number ID in
place of the unit's), capabilities, system calls, file mode mask. Of a unit's further settings, which need systemd, none are set."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys

PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 8, 24, 38, 47, 2
CAPABILITY_VERSION_3 = 0x20080522
SECCOMP_ALLOW, SECCOMP_EPERM = 0x7FFF0000, 0x00050001
CAPABILITIES = {"CAP_NET_BIND_SERVICE": 10, "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_PERFMON": 38, "CAP_BPF": 39}
LAST_CAPABILITY = 40

libc = ctypes.CDLL(None, use_errno=True)


def settings(unit):
    """The unit's [Service], each key with its values in order."""
    found = {}
    for line in pathlib.Path(unit).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def words(unit, key):
    return " ".join(settings(unit).get(key, [])).split()


def preparations(unit):
    """Commands that the unit has root run before the program; they may fail."""
    return [value.removeprefix("-+").split() for value in settings(unit).get("ExecStartPre", []) if value.startswith("-+")]


def must(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mask(names):
    return sum(1 << CAPABILITIES[name] for name in names)


def change_user(number, bounding, ambient):
    for capability in range(LAST_CAPABILITY + 1):
        if not bounding >> capability & 1:
            must(libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "bounding set")
    must(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "keep capabilities")
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    low, high = ambient & 0xFFFFFFFF, ambient >> 32
    must(libc.capset(header, (ctypes.c_uint32 * 6)(low, low, low, high, high, high)), "capabilities")
    for capability in range(LAST_CAPABILITY + 1):
        if ambient >> capability & 1:
            must(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0), "ambient capability")


def system_calls(listed):
    """Their names; a group @NAME as systemd has it."""
    said = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    groups, name = {}, None
    for line in said.splitlines():
        line = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if line.startswith("@"):
            name = line.strip()
            groups[name] = []
        elif name and line.strip() and not line.strip().startswith("#"):
            groups[name].append(line.strip())
        elif not line.strip():
            name = None

    def expand(entry):
        return {each for inner in groups[entry] for each in expand(inner)} if entry.startswith("@") else {entry}

    return set().union(*map(expand, listed))


def filter_system_calls(names):
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(SECCOMP_EPERM)))
    for name in names:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # else of another architecture, or newer than the library
            must(seccomp.seccomp_rule_add(context, ctypes.c_uint32(SECCOMP_ALLOW), number, 0), name)
    must(seccomp.seccomp_load(context), "system call filter")


def main():
    unit, number, program, *arguments = sys.argv[1:]
    names = system_calls(words(unit, "SystemCallFilter"))
    file = os.open(program, os.O_RDONLY | os.O_CLOEXEC)  # its folder may be closed to that user
    os.umask(int(words(unit, "UMask")[0], 8))
    change_user(int(number), mask(words(unit, "CapabilityBoundingSet")), mask(words(unit, "AmbientCapabilities")))
    must(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    filter_system_calls(names)
    os.execve(file, [program, *arguments], os.environ)


if __name__ == "__main__":
    main()
