#!/usr/bin/env python3
"""Runs the XDP program and an ensemble on the kernels that people have: stock ones, booted in QEMU (emulated).

    run.py                                  Debian 12's own kernel (6.1) and the one of its backports (6.12)
    run.py --kernel 6.12                    one of them
    run.py --kernel 6.1.0-47-amd64          any other that apt knows
    run.py --kernel FILE.deb|FOLDER         a package file, or an unpacked one (boot/vmlinuz-*, lib/modules/*)
    run.py --only load,packets              some steps (default: all)
    run.py --kernel 6.1 -- COMMAND...       any command on such a kernel, from the repository's folder

Steps: load (verified, attached natively and generically, refused), packets (the packet tests), generic and native (an
ensemble in namespaces, each procedure over UDP; generic: over TCP as well), ipv6 (native) and ipv6-generic (the
same over UDP and IPv6), shared (two proxies that share the clients, over TCP), tls (generic: the same over UDP,
and the kernel's own client mounts with xprtsec=, from Linux 6.5 on). Packages are downloaded and unpacked in $SLICE_CACHE/kernels (default ~/.cache/slice/kernels), not installed.
Needs root, qemu-system-x86, busybox-static, kmod.
Exit code 1 when a step failed; 77 when a kernel could not be had, and nothing failed.
"""

import argparse
import pathlib
import signal
import sys
import time

import guest
import packages

USUAL = ["6.1", "6.12"]
STEPS = ["load", "packets", "generic", "native", "ipv6", "ipv6-generic", "shared", "tls"]
EXIT_SKIPPED = 77
SECONDS = 1500  # a guest's time


def steps_on(kernel, given):
    """The command of the steps that are for this kernel."""
    steps, build = given.only.split(","), pathlib.Path(given.build)
    if "tls" in steps and kernel.has_tls():
        packages.ktls_utils((guest.ROOT / build / "ktls-utils").resolve())
    elif "tls" in steps:
        steps.remove("tls")
        print(f"step tls: the client of Linux {kernel.version} has none", flush=True)
    return ["python3", "tests/kernels/inside.py", build, *steps]


def on_kernel(wanted, given):
    """Runs the command, or the steps, on that kernel; the exit code, or EXIT_SKIPPED where there is no such kernel."""
    try:
        kernel = packages.find(wanted)
        command = given.command or steps_on(kernel, given)
    except packages.NoKernel as why:
        print(f"SKIPPED kernel {wanted}: {why}", flush=True)
        return EXIT_SKIPPED
    print(f"== Linux {kernel.version}", flush=True)
    began = time.monotonic()
    one = guest.Guest(kernel, command, memory=given.memory, processors=given.processors, timeout=given.timeout)
    code = one.run()
    if code in (guest.EXIT_TIMEOUT, guest.EXIT_NO_BOOT):
        why = "the time ran out" if code == guest.EXIT_TIMEOUT else "the guest ended without the command"
        print(f"{why}; the end of its console:\n{one.console[-4000:]}")
    print(f"== Linux {kernel.version}: {'passed' if code == 0 else f'FAILED ({code})'} in {time.monotonic() - began:.0f} s", flush=True)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append", help="6.1, 6.12, a version, a package file or a folder; may be given again")
    parser.add_argument("--only", default=",".join(STEPS), help="steps, by comma")
    parser.add_argument("--build", default="build/release", help="the build whose programs run, below the repository")
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--processors", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=SECONDS, help="seconds for one guest")
    parser.add_argument("command", nargs="*")
    given = parser.parse_args()
    steps = given.only.split(",")
    unknown = [step for step in steps if step not in STEPS]
    if unknown:
        parser.error(f"no such step: {', '.join(unknown)}")
    if not (guest.ROOT / given.build / "bin/slice-proxyd").exists():
        parser.error(f"{given.build} is not built")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # so that the guest ends, and its files go
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        codes = [on_kernel(wanted, given) for wanted in given.kernel or USUAL]
    except guest.GuestError as error:
        print(f"run.py: {error}")
        return 1
    failed = any(code not in (0, EXIT_SKIPPED) for code in codes)
    return 1 if failed else EXIT_SKIPPED if EXIT_SKIPPED in codes else 0


if __name__ == "__main__":
    sys.exit(main())
