"""A stock kernel in QEMU, emulated (TCG): boots it on the host's own files and runs one command there.

The initial RAM disk holds a shell and a few modules. Everything else is the host's root, shown by 9p and read-only, with the
repository under its own path; /tmp, /run, /root, /dev/shm and what else is written are the guest's own memory. Emulated,
a guest is 10 to 30 times slower than the host: it is for whether something works, never for how fast.
"""

import ctypes
import hashlib
import lzma
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import packages

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of virtio and 9p for the guest itself, the others for networks: bridges, and programs at traffic control.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "veth", "bridge", "sch_ingress", "cls_bpf")
# Of a client that mounts, and of its connections' TLS, with what GCM is made of.
CLIENT_MODULES = ("nfsv3", "tls", "gcm", "ghash-generic", "ctr", "aesni-intel")
HIDDEN = ("/tmp", "/run", "/root", "/mnt", "/dev", "/var/tmp", "/var/lib/nfs")  # of the host, under the guest's own memory
EXIT_TIMEOUT = 124
EXIT_NO_BOOT = 125
EXIT_LINE = "slice-guest-exit "
# No later one: QEMU 7.2 emulates AVX, but not always rightly.
PROCESSOR = "Westmere,+rdrand"

INIT = r"""#!/bin/busybox sh
# First process of the guest: loads modules, shows the host's files, runs the command there, powers off.
export PATH=/bin
/bin/busybox mkdir -p /bin /proc /sys /dev /host
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in @MODULES@; do insmod /modules/$module || echo "cannot load $module"; done
show() { mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 "$1" "$2"; }
show host /host || { echo "cannot show the host's files"; poweroff -f; }
for folder in @HIDDEN@; do mount -t tmpfs -o mode=1777 tmpfs /host$folder; done
mount -t devtmpfs devtmpfs /host/dev
mount -t proc proc /host/proc
mount -t sysfs sysfs /host/sys
mount -t bpf bpf /host/sys/fs/bpf
mkdir -p /host/dev/shm /host/dev/pts
mount -t tmpfs -o mode=1777 tmpfs /host/dev/shm
mount -t devpts devpts /host/dev/pts
mkdir -p /host@ROOT@ && { [ -e /host@ROOT@/CMakeLists.txt ] || show repository /host@ROOT@; }
ip link set lo up
echo "slice-guest $(uname -r) is up after $(cut -d' ' -f1 /proc/uptime) s" > /dev/ttyS1
chroot /host /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  HOME=/root LANG=C.UTF-8 TERM=dumb sh -c 'cd @ROOT@ && @COMMAND@' < /dev/null > /dev/ttyS1 2>&1
echo "@EXIT@$?" > /dev/ttyS1
sync
poweroff -f
"""


class GuestError(Exception):
    """The guest could not be set up; the text says what to do."""


def die_with_parent():
    """In the child: SIGKILL when the harness is gone, so that nothing outlives it."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def busybox():
    """The shell and tools of the RAM disk; it must not need libraries."""
    found = shutil.which("busybox")
    if not found:
        raise GuestError("busybox is missing: apt-get install busybox-static")
    return pathlib.Path(found)


def uncompressed(module):
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


def ram_disk(kernel, folder):
    """The unchanging part of the initial RAM disk, packed: busybox and the modules. Kept in the cache under the hash of what it
    is made of. Result: its path, and the modules' names in the order of loading."""
    files = kernel.module_files(MODULES + (CLIENT_MODULES if kernel.has_tls() else ()))
    names = [file.name.split(".ko")[0] + ".ko" for file in files]
    content = hashlib.sha256(b"".join([busybox().read_bytes(), *[file.read_bytes() for file in files]])).hexdigest()[:16]
    kept = packages.CACHE / f"ramdisk-{content}.cpio"
    if not kept.exists():
        tree = folder / "ramdisk"
        (tree / "modules").mkdir(parents=True)
        (tree / "bin").mkdir()
        shutil.copy(busybox(), tree / "bin/busybox")
        for file, name in zip(files, names):
            (tree / "modules" / name).write_bytes(uncompressed(file))
        part = kept.with_suffix(f".part{os.getpid()}")
        part.write_bytes(packed(tree))
        part.rename(kept)
    return kept, names


def packed(tree):
    """The files below a folder as the kernel reads them."""
    listed = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    return subprocess.run([str(busybox()), "cpio", "-o", "-H", "newc"], cwd=tree, input=listed.encode(), capture_output=True,
                          check=True).stdout


class Guest:
    """One boot, for one command (a list of words). `text` is what the command printed, `console` what the kernel did."""

    def __init__(self, kernel, command, *, memory="2G", processors=2, timeout=600, output=sys.stdout):
        self.kernel, self.command, self.memory, self.processors = kernel, [str(word) for word in command], memory, processors
        self.timeout, self.output = timeout, output
        self.text = self.console = ""
        self.boot_line = ""

    def _init(self, folder, modules):
        """The second part of the RAM disk, which differs from run to run; the kernel reads both, one after the other."""
        tree = folder / "init-tree"
        tree.mkdir()
        text = INIT
        for mark, value in {"@MODULES@": " ".join(modules), "@HIDDEN@": " ".join(HIDDEN), "@ROOT@": str(ROOT), "@EXIT@": EXIT_LINE,
                            "@COMMAND@": shlex.join(self.command).replace("'", "'\\''")}.items():
            text = text.replace(mark, value)
        (tree / "init").write_text(text)
        (tree / "init").chmod(0o755)
        return packed(tree)

    def _qemu(self, folder):
        program = shutil.which("qemu-system-x86_64")
        if not program:
            raise GuestError("QEMU is missing: apt-get install qemu-system-x86")
        kept, modules = ram_disk(self.kernel, folder)
        init = folder / "initrd"
        content = kept.read_bytes()
        init.write_bytes(content + b"\0" * (-len(content) % 512) + self._init(folder, modules))
        share = "local,path={},mount_tag={},security_model=none,readonly=on,multidevs=remap"
        return [program, "-accel", "tcg,thread=multi", "-cpu", PROCESSOR, "-smp", str(self.processors), "-m", self.memory,
                "-nodefaults", "-display", "none", "-no-reboot", "-kernel", str(self.kernel.image), "-initrd", str(init),
                "-append", "console=ttyS0 panic=-1 quiet mitigations=off", "-serial", f"file:{folder}/console", "-serial", "stdio",
                "-virtfs", share.format("/", "host"), "-virtfs", share.format(ROOT, "repository")]

    def run(self):
        """Boots, runs the command, powers off. The command's exit code; EXIT_TIMEOUT when the time ran out, EXIT_NO_BOOT when the
        guest ended without it."""
        with tempfile.TemporaryDirectory(prefix="slice-kernel-", dir="/var/tmp") as name:
            folder = pathlib.Path(name)
            process = subprocess.Popen(self._qemu(folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       preexec_fn=die_with_parent)
            late = threading.Event()
            watch = threading.Timer(self.timeout, lambda: (late.set(), process.kill()))
            watch.start()
            try:
                code = self._read(process)
            finally:
                watch.cancel()
                process.kill()
                process.wait()
            console = folder / "console"
            self.console = console.read_text(errors="replace") if console.exists() else ""
        if code is not None:
            return code
        return EXIT_TIMEOUT if late.is_set() else EXIT_NO_BOOT

    def _read(self, process):
        code = None
        for raw in process.stdout:
            line = raw.decode(errors="replace").replace("\r", "")
            if line.startswith(EXIT_LINE):
                code = int(line.removeprefix(EXIT_LINE))
                deadline = threading.Timer(15, process.kill)  # it syncs and powers off
                deadline.start()
                process.wait()
                deadline.cancel()
                return code
            if line.startswith("slice-guest "):
                self.boot_line = line.removeprefix("slice-guest ").strip()
            self.text += line
            if self.output:
                self.output.write(line)
                self.output.flush()
        return code
