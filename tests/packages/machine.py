"""A host that an operator has: systemd as the first process of user-mode Linux, on a root into which the packages are installed (root.py)."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cluster"))
import uml  # noqa: E402  (its folder is known only now)

UNITS = "etc/systemd/system"
CONTROL = "var/tmp/control"  # in the root: what the machine is to do, and what came of it
# Files of the host belong to root there: data is in the machine's own memory.
FILE_SYSTEMS = "tmpfs /tmp tmpfs mode=1777 0 0\ntmpfs /var/lib/slice tmpfs mode=0750 0 0\n"
DRIVER = f"""[Unit]
Description=What the test has this host do
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash /{CONTROL}/script
ExecStopPost=/bin/sh -c 'echo $EXIT_STATUS > /{CONTROL}/exit; echo o > /proc/sysrq-trigger; sleep 60'
StandardOutput=file:/{CONTROL}/output
StandardError=inherit
[Install]
WantedBy=multi-user.target
"""
ADDRESS = """[Unit]
Description=The address of this host
DefaultDependencies=no
Before=network.target network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/perl {modules}
ExecStart=/bin/ip address add {address} dev {device}
ExecStart=/bin/ip link set {device} up
"""
# IPv6 is a module of this kernel; the root need not have what loads modules (finit_module(2)).
MODULES = ("lib/crc-ccitt", "net/ipv6/ipv6")
LOAD_MODULES = """for my $path (qw(@FILES@)) {
  open(my $file, "<", $path) or die "$path: $!";
  my $none = "";  # syscall() takes no constant
  syscall(313, fileno($file), $none, 0) == 0 or die "$path: $!";
}
"""
# A watchdog that the test can wait for.
WATCHDOG = "[Service]\nWatchdogSec=10\nTimeoutAbortSec=1\n"
IN_THE_WAY = ("getty.target", "getty@tty1.service", "console-getty.service", "apt-daily.timer", "apt-daily-upgrade.timer", "systemd-resolved.service",
              "systemd-timesyncd.service",
              "systemd-networkd.service", "systemd-networkd-wait-online.service", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer",
              "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service", "systemd-journal-flush.service", "systemd-random-seed.service",
              "systemd-user-sessions.service", "systemd-modules-load.service", "kmod-static-nodes.service", "modprobe@.service", "systemd-pstore.service",
              "dev-hugepages.mount", "dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-kernel-config.mount",
              "sys-fs-fuse-connections.mount", "proc-sys-fs-binfmt_misc.automount", "systemd-remount-fs.service")


# Servers that wait for others say so each second, and each line costs much there.
QUIET = "[Service]\nLogRateLimitIntervalSec=60\nLogRateLimitBurst=30\n"


class Machine(uml.Guest):
    """One boot, in which a shell script runs once the host is up; then it powers off. `text`: what the script printed.

    netns, tap: its network, which is there already; without one it is alone in a namespace. address: its own, with the network's bits."""

    def __init__(self, root, script, timeout=600, netns=None, tap=None, address="10.77.0.10/24"):
        super().__init__(netns, None, [], mount=False, memory="1G", timeout=timeout)
        self.root, self.tap = pathlib.Path(root), tap
        self.control = self.root / CONTROL
        shutil.rmtree(self.control, ignore_errors=True)
        self.control.mkdir(parents=True)
        (self.control / "script").write_text(script)
        self._put("slice-test.service", DRIVER, wanted_by="multi-user.target")
        device, target = ("vec0", "basic.target") if tap else ("lo", "network-online.target")
        self._put("address.service", ADDRESS.format(address=address, device=device, modules=f"/{CONTROL}/modules.pl"), wanted_by=target)
        kernel = sorted(pathlib.Path("/usr/lib/uml/modules").glob("*/kernel"))[-1]
        for name in MODULES:
            shutil.copy(kernel / f"{name}.ko", self.control)
        files = " ".join(f"/{CONTROL}/{pathlib.Path(name).name}.ko" for name in MODULES)
        (self.control / "modules.pl").write_text(LOAD_MODULES.replace("@FILES@", files))
        self._put("slice-coordd@.service.d/test.conf", WATCHDOG)
        self._put("slice-.service.d/test.conf", QUIET)
        # Processes are slow to start there, and each of its generators is one, at every start and reload.
        generators = [f"../system-generators/{path.name}" for path in self.root.glob("lib/systemd/system-generators/*") if path.name != "systemd-fstab-generator"]
        for name in [*IN_THE_WAY, *generators]:
            path = self.root / UNITS / name
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            path.symlink_to("/dev/null")
        (self.root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
        for mark in ("etc/.updated", "var/.updated"):  # or systemd brings caches up to date first
            (self.root / mark).touch()
        (self.root / "etc/fstab").write_text(FILE_SYSTEMS)

    def _put(self, name, text, wanted_by=None):
        """A unit, or a part of one."""
        path = self.root / UNITS / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        if wanted_by:
            wants = self.root / UNITS / f"{wanted_by}.wants"
            wants.mkdir(exist_ok=True)
            (wants / name).unlink(missing_ok=True)
            (wants / name).symlink_to(f"../{name}")

    def start(self):
        self.folder = self.control
        network = [f"vec0:transport=tap,ifname={self.tap},depth=128,gro=1"] if self.tap else []
        alone = ["unshare"] if self.netns else ["unshare", "--net"]
        command = [*(uml.in_netns(self.netns) if self.netns else []), *alone, "--pid", "--fork", "--kill-child=KILL", "--mount-proc",
                   shutil.which("linux.uml") or "linux.uml",
                   f"mem={self.memory}", "rootfstype=hostfs", f"rootflags={self.root}", "rw", "init=/lib/systemd/systemd", "con=null", "con0=null,fd:2",
                   "panic=1", "quiet", *uml.UNTRIED, "systemd.show_status=no", "systemd.log_target=kmsg", "systemd.journald.forward_to_console=1", *network]
        environment = dict(os.environ, TMPDIR="/dev/shm")
        if shim := uml.xstate_shim():
            environment["LD_PRELOAD"] = shim
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment,
                                        start_new_session=True, preexec_fn=uml.die_with_parent)
        self._threads = [threading.Thread(target=self._read_console, daemon=True)]
        self._threads[0].start()
        self.deadline = time.monotonic() + self.timeout
        return self

    def wait(self):
        while self.process.poll() is None and self.poll() is None and time.monotonic() < self.deadline:
            time.sleep(0.1)
        code = self.poll()
        output = self.control / "output"
        self.text = output.read_text(errors="replace") if output.exists() else ""
        self.stop()
        return uml.EXIT_NO_BOOT if code is None else code
