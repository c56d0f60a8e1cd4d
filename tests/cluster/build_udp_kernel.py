#!/usr/bin/env python3
"""Builds, once, the user-mode Linux kernel whose NFS client speaks UDP.

Debian's kernels are configured with CONFIG_NFS_DISABLE_UDP_SUPPORT, so a real kernel
client over UDP needs a kernel of its own. It is built from Debian's linux-source-6.1
package into $SLICE_CACHE (default ~/.cache/slice) and stays there; a later call finds it
and only prints its path. Building takes 6 minutes and more of one processor, so no
regular test run does it.

    build_udp_kernel.py [--jobs N] [--check]

Prints the kernel's path on standard output. With --check it builds nothing and exits
with 1 if the kernel is not there.
"""

import argparse
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path("/usr/src/linux-source-6.1.tar.xz")
PACKAGES = "linux-source-6.1 flex bison bc gcc make xz-utils"

# On top of ARCH=um defconfig. Everything is built in: the guest loads no module.
OPTIONS_ON = (
    "HOSTFS UML_NET_VECTOR NFS_FS NFS_V2 NFS_V3 NFS_V3_ACL LOCKD LOCKD_V4 SUNRPC DEVTMPFS TMPFS "
    "EXT4_FS INET PACKET UNIX PROC_FS SYSFS FILE_LOCKING"
).split()
OPTIONS_OFF = "NFS_DISABLE_UDP_SUPPORT NFS_V4 MODULES DEBUG_INFO DEBUG_KERNEL GCOV KASAN".split()


def cache_dir() -> pathlib.Path:
    return pathlib.Path(os.environ.get("SLICE_CACHE") or pathlib.Path.home() / ".cache" / "slice")


def kernel_path() -> pathlib.Path:
    return cache_dir() / "linux.uml-udp"


def run(command: list, cwd: pathlib.Path, log) -> None:
    """Runs one build step; its output goes to the log; raises on failure."""
    log.write(f"$ {' '.join(map(str, command))}\n")
    log.flush()
    subprocess.run(list(map(str, command)), cwd=cwd, stdout=log, stderr=log, check=True)


def build(jobs: int) -> None:
    if not SOURCE.exists():
        sys.exit(f"{SOURCE} is missing: apt-get install {PACKAGES}")
    work = cache_dir() / "build-udp-kernel"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    log_path = cache_dir() / "build-udp-kernel.log"
    with open(log_path, "w") as log:
        try:
            run(["tar", "-xf", SOURCE, "--strip-components=1"], work, log)
            run(["make", "ARCH=um", "defconfig"], work, log)
            config = ["scripts/config"]
            for option in OPTIONS_ON:
                config += ["--enable", option]
            for option in OPTIONS_OFF:
                config += ["--disable", option]
            run(config, work, log)
            run(["make", "ARCH=um", "olddefconfig"], work, log)
            written = (work / ".config").read_text()
            for wanted in ("CONFIG_NFS_V3=y", "CONFIG_UML_NET_VECTOR=y", "CONFIG_HOSTFS=y",
                           "# CONFIG_NFS_DISABLE_UDP_SUPPORT is not set"):
                if wanted not in written:
                    sys.exit(f"the kernel's configuration lacks {wanted!r}; see {log_path}")
            run(["nice", "-n", "10", "make", "ARCH=um", f"-j{jobs}", "linux"], work, log)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{error}; see {log_path}")
    part = kernel_path().with_suffix(".part")
    shutil.copy2(work / "linux", part)
    subprocess.run(["strip", str(part)], check=True)
    part.rename(kernel_path())
    shutil.rmtree(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--check", action="store_true", help="build nothing; exit 1 if it is not built")
    options = parser.parse_args()
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(cache_dir() / "build-udp-kernel.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kernel_path().exists():
            if options.check:
                sys.exit(1)
            build(options.jobs)
    print(kernel_path())


if __name__ == "__main__":
    main()
