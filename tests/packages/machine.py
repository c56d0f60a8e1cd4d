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
IN_THE_WAY = ("getty@tty1.service", "console-getty.service", "apt-daily.timer", "apt-daily-upgrade.timer", "systemd-resolved.service", "systemd-timesyncd.service",
              "systemd-networkd.service", "systemd-networkd-wait-online.service", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer")


class Machine(uml.Guest):
    """One boot, in which a shell script runs once the host is up; then it powers off. `text`: what the script printed."""

    def __init__(self, root, script, timeout=600):
        super().__init__(None, None, [], mount=False, memory="1G", timeout=timeout)
        self.root = pathlib.Path(root)
        self.control = self.root / CONTROL
        self.control.mkdir(parents=True)
        (self.control / "script").write_text(script)
        units = self.root / "etc/systemd/system"
        (units / "slice-test.service").write_text(DRIVER)
        wants = units / "multi-user.target.wants"
        wants.mkdir(exist_ok=True)
        (wants / "slice-test.service").symlink_to("../slice-test.service")
        for unit in IN_THE_WAY:
            (units / unit).unlink(missing_ok=True)
            (units / unit).symlink_to("/dev/null")
        (self.root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
        for mark in ("etc/.updated", "var/.updated"):  # or systemd brings caches up to date first
            (self.root / mark).touch()
        (self.root / "etc/fstab").write_text(FILE_SYSTEMS)

    def start(self):
        self.folder = self.control
        command = ["unshare", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", shutil.which("linux.uml") or "linux.uml",
                   f"mem={self.memory}", "rootfstype=hostfs", f"rootflags={self.root}", "rw", "init=/lib/systemd/systemd", "con=null", "con0=null,fd:2",
                   "panic=1", "quiet", "systemd.show_status=no", "systemd.log_target=kmsg", "systemd.journald.forward_to_console=1"]
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
