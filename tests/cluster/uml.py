"""A real kernel NFSv3 client as a process: boots user-mode Linux in a network namespace.

One `Guest` is one boot: it mounts SERVER:/EXPORT on /mnt, runs one command there and powers
off. The guest sees the host's root read-only, with the repository under its own path; it
writes to the mount, to tmpfs (/tmp, /run, /root, /dev/shm) and to nothing else. Its network is a tap in the given namespace with proxy ARP, so the server sees the
guest's own address (in the subnet over which the namespace reaches the server).

Up to MAX_GUESTS guests run at once in one namespace. A guest dies with the process that
started it, whichever way that ends.
"""

import ctypes
import fcntl
import ipaddress
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIDDEN = ("/tmp", "/run", "/mnt", "/root", "/var/lib/nfs", "/dev")  # of the host, under the guest's own tmpfs
MAX_GUESTS = 4
GATEWAY6 = "fe80::77"  # a guest's, of IPv6
FIRST_GUEST_HOST = 200  # guest in slot N is address .200+N of the namespace's /24
EXIT_TIMEOUT = 124
EXIT_NO_BOOT = 125
CONSOLE_TOLD = 4000  # characters

MODULES = ("nfsv3",)

INIT = r"""#!/bin/bash
# First process of the guest: prepares it, mounts the volume, runs the command, powers off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
mount -t proc proc /proc
mount -a -T @CONTROL@/fstab
mkdir -p /run/lock /var/lib/nfs/sm
. /run/slice/control/guest.sh
echo "$code" > /run/slice/control/exit.part
mv /run/slice/control/exit.part /run/slice/control/exit
sync -f /mnt 2>/dev/null
umount -f /mnt 2>/dev/null
echo o > /proc/sysrq-trigger
sleep 60
"""

# Each program that is started costs a guest a fiftieth of a second.
FSTAB = """sysfs /sys sysfs defaults 0 0
tmpfs /tmp tmpfs mode=1777 0 0
tmpfs /run tmpfs mode=755 0 0
tmpfs /mnt tmpfs mode=755 0 0
tmpfs /root tmpfs mode=755 0 0
tmpfs /var/lib/nfs tmpfs mode=755 0 0
devtmpfs /dev devtmpfs defaults 0 0
devpts /dev/pts devpts X-mount.mkdir 0 0
tmpfs /dev/shm tmpfs mode=1777,X-mount.mkdir 0 0
none /run/slice/control hostfs @CONTROL@,X-mount.mkdir 0 0
"""

# A kernel that starts tries out how fast its RAID-6 is, for a second of a processor, and its ciphers.
UNTRIED = ("initcall_blacklist=raid6_select_algo", "cryptomgr.notests=1")


class UmlError(Exception):
    """The guest could not be set up; the text says what to do."""


def ip(*arguments, netns=None, check=True):
    """Runs ip(8), in a namespace if one is given; returns its output."""
    command = ["ip"] + (["-n", netns] if netns else []) + list(arguments)
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise UmlError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def route_to(netns, server):
    """The (device, own address) with which the namespace reaches the server."""
    routes = json.loads(ip("-j", "-6" if ":" in server else "-4", "route", "get", server, netns=netns))
    return routes[0]["dev"], routes[0]["prefsrc"]


def xstate_shim():
    """The library that user-mode Linux needs on this processor (uml_xstate.cc), or None if it needs none."""
    # Not one with a sanitizer, which only a program with that one could load.
    built = sorted((path for path in ROOT.glob("build/*/cluster/uml_xstate.so") if path.parts[-3] not in ("asan", "tsan")),
                   key=lambda path: path.stat().st_mtime)
    if built:
        return str(built[-1])
    if " amx_tile " in pathlib.Path("/proc/cpuinfo").read_text():
        raise UmlError("on this processor user-mode Linux needs uml_xstate.so: build the target uml_xstate first")
    return None


def in_netns(netns, *command):
    return ["nsenter", f"--net=/run/netns/{netns}", *command]


def run_in_netns(netns, command, timeout, output=sys.stdout):
    """Runs a program in a namespace, killed after `timeout` seconds; its text, which also goes to `output`, and its exit code."""
    command = in_netns(netns, *[str(word) for word in command])
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        watch = threading.Timer(timeout, process.kill)
        watch.start()
        try:
            text = ""
            for line in process.stdout:
                if output:
                    output.write(line)
                    output.flush()
                text += line
            return text, process.wait()
        finally:
            watch.cancel()
            process.kill()


def die_with_parent():
    """In the child: SIGKILL when the harness is gone, so that nothing outlives it."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Guest:
    """One boot of a kernel client. Use as a context manager, or call stop()."""

    def __init__(self, netns, server, command, *, export="/", options="", proto="tcp", port=2049, mount_port=20048,
                 kernel=None, memory="512M", shares=None, environment=None, timeout=300, output=None, mount=True,
                 locks=False, modules=(), host=None, status=None, before="", name=None):
        """command: list run with the mount as its working folder (SLICE_MOUNT names it).
        options: extra mount options. shares: {name: host folder} shown at /run/slice/NAME, read-only.
        output: file object that receives the command's output as it comes; then the end of the console is told too, on
        standard error, where the command did not end by itself. None keeps both only in `self.text` and `self.console`.
        kernel: another UML kernel than Debian's, with everything built in. modules: of Debian's, more than
        those of a client. host: number of its address in its network, where it is to have a certain one.
        port: 0 leaves it to the client to find the ports, by rpcbind.
        locks: rpcbind and rpc.statd run, and it mounts without nolock; status: a folder that keeps what rpc.statd does, so
        that a guest which boots again with the same tells servers of it, as a host does.
        before: shell lines that it runs before it mounts. name: of the server, by which it mounts, where that is not to be its address;
        the guest must know what it means."""
        self.netns, self.server, self.command = netns, server, list(command)
        self.export, self.options, self.proto = export, options, proto
        self.port, self.mount_port = port, mount_port
        self.kernel, self.memory, self.mount, self.locks = kernel, memory, mount, locks
        self.modules, self.host, self.status = [*MODULES, *modules], host, status
        self.before, self.name = before, name
        self.shares, self.environment = dict(shares or {}), dict(environment or {})
        self.timeout, self.output = timeout, output
        self.text, self.console = "", ""
        self.process = self.folder = self.lock = self.address = None
        self.tap = self.own_tap = None  # the device, and the same where it goes with the guest
        self._threads = []
        self._timed_out = False

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    # --- set-up -----------------------------------------------------------------------

    def _connect(self):
        """Gives the guest its network: sets tap, address and gateway."""
        self._make_tap(self._take_slot())

    def _devices(self):
        """More devices, as words of the kernel's command line."""
        return []

    def _take_slot(self):
        locks = pathlib.Path("/run/lock/slice-uml")
        locks.mkdir(parents=True, exist_ok=True)
        for slot in range(MAX_GUESTS):
            lock = open(locks / f"{self.netns}.{slot}", "w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            self.lock = lock
            return slot
        raise UmlError(f"{MAX_GUESTS} guests already run in namespace {self.netns}")

    def _make_tap(self, slot):
        device, own = route_to(self.netns, self.server)
        network = ipaddress.ip_network(f"{own}/{64 if self.is_ipv6 else 24}", strict=False)
        self.address = str(network[self.host or FIRST_GUEST_HOST + slot])
        self.gateway = own
        self.tap = self.own_tap = f"sliceuml{slot}"
        ip("link", "del", self.tap, netns=self.netns, check=False)  # left by a harness that was killed
        ip("tuntap", "add", self.tap, "mode", "tap", netns=self.netns)
        ip("link", "set", self.tap, "up", netns=self.netns)
        if self.is_ipv6:
            self._route_ipv6(device)
            return
        ip("route", "replace", f"{self.address}/32", "dev", self.tap, netns=self.netns)
        settings = ["net.ipv4.ip_forward=1", f"net.ipv4.conf.{device}.proxy_arp=1",
                    f"net.ipv4.conf.{self.tap}.proxy_arp=1"]
        subprocess.run(in_netns(self.netns, "sysctl", "-q", "-w", *settings), check=True)

    def _route_ipv6(self, device):
        """A host answers for addresses of its other interfaces only as a proxy, and to a guest by a link-local address."""
        self.gateway = GATEWAY6
        settings = ["net.ipv6.conf.all.forwarding=1", f"net.ipv6.conf.{device}.proxy_ndp=1"]
        subprocess.run(in_netns(self.netns, "sysctl", "-q", "-w", *settings), check=True)
        ip("addr", "add", f"{GATEWAY6}/64", "dev", self.tap, "nodad", netns=self.netns)
        ip("route", "replace", f"{self.address}/128", "dev", self.tap, netns=self.netns)
        ip("-6", "neigh", "replace", "proxy", self.address, "dev", device, netns=self.netns)

    @property
    def is_ipv6(self):
        return ":" in (self.server or "")

    def _modules(self):
        if self.kernel:
            return []
        return [*(["ipv6"] if self.is_ipv6 else []), *self.modules]

    def _guest_script(self):
        """The second half of the init: what differs from guest to guest."""
        modules = self._modules()
        lines = [f"modprobe -C /dev/null -d /run/slice/control -a {' '.join(modules)}"] if modules else []
        lines += self._network_lines()
        for name, folder in self.shares.items():
            lines += self._show(folder, f"/run/slice/{name}")
        if any(ROOT.is_relative_to(hidden) for hidden in HIDDEN):
            lines += self._show(ROOT, ROOT)
        if self.locks:
            # rpc.statd looks names up, and would wait for the host's name server.
            lines += [f"hostname client-{re.sub('[.:]+', '-', self.address)}", "mount --bind /dev/null /etc/resolv.conf", "rpcbind -w 2>/dev/null || rpcbind"]
            if self.status:
                lines += [f"mount -t hostfs -o {shlex.quote(str(self.status))} none /var/lib/nfs"]
            lines += ["rpc.statd" if self.status else "rpc.statd --no-notify"]
        self.environment.setdefault("SLICE_MOUNT", "/mnt")
        lines += [f"export {name}={shlex.quote(str(value))}" for name, value in self.environment.items()]
        lines += [self.before] if self.before else []
        command = " ".join(shlex.quote(word) for word in self.command)
        run = f"cd /mnt && {{ {command}; }} < /dev/null > /dev/tty1 2>&1; code=$?; cd /"
        lines += ["stty -F /dev/tty1 -opost"]
        if self.mount:
            proto = f"{self.proto}6" if self.is_ipv6 else self.proto
            options = f"vers=3,proto={proto},mountproto={proto}"
            options += f",port={self.port},mountport={self.mount_port}" if self.port else ""
            options += "" if self.locks else ",nolock"
            options += f",{self.options}" if self.options else ""
            source = shlex.quote(f"{self.name or (f'[{self.server}]' if self.is_ipv6 else self.server)}:{self.export}")
            lines += [f"if mount.nfs {source} /mnt -o {options} > /dev/tty1 2>&1; then {run}; "
                      f"else echo 'mount failed' > /dev/tty1; code={EXIT_NO_BOOT}; fi"]
        else:
            lines += [run]
        return "\n".join(lines) + "\n"

    def _network_lines(self):
        if self.is_ipv6:
            return ["sysctl -qw net.ipv6.conf.vec0.accept_dad=0",
                    self._ip("link set lo up", "link set vec0 up", f"addr add {self.address}/128 dev vec0 nodad",
                             f"route add default via {self.gateway} dev vec0")]
        return [self._ip("link set lo up", "link set vec0 up", f"addr add {self.address}/24 dev vec0", f"route add default via {self.gateway}")]

    @staticmethod
    def _ip(*commands):
        text = "\n".join(commands)
        return f"ip -batch - <<'END'\n{text}\nEND"

    @staticmethod
    def _show(folder, place):
        folder, place = shlex.quote(str(folder)), shlex.quote(str(place))
        return [f"mkdir -p {place}", f"mount -t hostfs -o ro,{folder} none {place}"]

    def start(self):
        if not pathlib.Path(f"/run/netns/{self.netns}").exists():
            raise UmlError(f"no network namespace {self.netns}: is the ensemble up?")
        try:
            self._connect()
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slice-uml-", dir="/tmp"))
            init = self.folder / "init"
            init.write_text(INIT.replace("@CONTROL@", str(self.folder)))
            init.chmod(0o755)
            (self.folder / "fstab").write_text(FSTAB.replace("@CONTROL@", str(self.folder)))
            (self.folder / "lib").mkdir()
            (self.folder / "lib/modules").symlink_to("/usr/lib/uml/modules")
            (self.folder / "guest.sh").write_text(self._guest_script())
            self._boot(init)
        except BaseException:
            self.stop()
            raise
        return self

    def _boot(self, init):
        kernel = self.kernel or shutil.which("linux.uml")
        if not kernel:
            raise UmlError("user-mode Linux is missing: apt-get install user-mode-linux")
        command = in_netns(self.netns, "unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", str(kernel),
                           f"vec0:transport=tap,ifname={self.tap},depth=128,gro=1", f"mem={self.memory}",
                           "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "con=null", "con0=null,fd:2",
                           "con1=null,fd:1", "panic=1", "quiet", *UNTRIED, *self._devices())
        environment = dict(os.environ, TMPDIR="/dev/shm")
        if shim := xstate_shim():
            environment["LD_PRELOAD"] = shim
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=environment, start_new_session=True,
                                        preexec_fn=die_with_parent)
        self._threads = [threading.Thread(target=self._read_output, daemon=True),
                         threading.Thread(target=self._read_console, daemon=True)]
        for thread in self._threads:
            thread.start()
        self.deadline = time.monotonic() + self.timeout

    def _read_output(self):
        for line in iter(self.process.stdout.readline, b""):
            text = line.decode(errors="replace").replace("\r", "")
            self.text += text
            if self.output:
                self.output.write(text)
                self.output.flush()

    def _read_console(self):
        for line in iter(self.process.stderr.readline, b""):
            self.console += line.decode(errors="replace").replace("\r", "")

    # --- end --------------------------------------------------------------------------

    def poll(self):
        """The command's exit code once it has ended, else None; what ended by a signal has that of SIGKILL."""
        done = self.folder / "exit"
        said = done.read_text().strip() if done.exists() else ""  # made, and then written
        if not said:
            return None
        return int(said) if said.isdigit() else 128 + signal.SIGKILL

    def says(self, word):
        """Waits until the command has printed a line with the word: true, or false where it ended or the time ran out first."""
        while self.poll() is None and self.process.poll() is None and time.monotonic() < self.deadline:
            if word in self.text:
                return True
            time.sleep(0.05)
        return word in self.text

    def wait(self, patience=math.inf):
        """Waits for the guest's end, but no longer than its time, or this many seconds; returns the command's exit code, EXIT_TIMEOUT
        when the time ran out, EXIT_NO_BOOT when the guest died or could not mount."""
        self.deadline = min(self.deadline, time.monotonic() + patience)
        while self.process.poll() is None and time.monotonic() < self.deadline:
            if self.poll() is not None:
                try:
                    self.process.wait(10)  # it unmounts and powers off
                except subprocess.TimeoutExpired:
                    pass
                break
            time.sleep(0.05)
        code = self.poll()
        if code is None:
            code = EXIT_TIMEOUT if self.process.poll() is None else EXIT_NO_BOOT
        self.stop()
        if self.output and code in (EXIT_TIMEOUT, EXIT_NO_BOOT):
            why = "the guest's time ran out" if code == EXIT_TIMEOUT else "the guest died or could not mount"
            print(f"uml: {why}\n{self.console[-CONSOLE_TOLD:]}", file=sys.stderr, flush=True)
        return code

    def stop(self):
        """Ends the guest if it still runs and removes everything it used. May be called twice."""
        if self.process:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for thread in self._threads:
                thread.join(5)
        if self.own_tap:
            ip("link", "del", self.own_tap, netns=self.netns, check=False)
        self.tap = self.own_tap = None
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        if self.lock:
            self.lock.close()
            self.lock = None


def exit_on_signals():
    """Makes SIGTERM, SIGINT, SIGHUP and SIGALRM unwind the stack, so that every `with` cleans up. What SIGALRM ends hangs: where is told."""
    def leave(number, frame):
        if number == signal.SIGALRM:
            print("time is over, here:\n" + "".join(traceback.format_stack(frame)), flush=True)
        raise SystemExit(128 + number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, leave)
