#!/usr/bin/env python3
"""NFS-Ganesha in a network namespace of its own: a known NFSv3 server to hold our tests and figures against.

As a library: `with Ganesha(folder) as peer:` gives peer.netns (a client namespace that
reaches it), peer.address, peer.export and peer.pid (for processor time from /proc/PID/stat).
As a command: `ganesha.py FOLDER` serves until SIGTERM or end of standard input, after printing
one line of JSON with these values.

The folder must lie on ext4 or xfs for conformance: on tmpfs this version's READDIR loops.
Namespaces carry the pid of the process that made them; both go when it ends.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """
NFS_CORE_PARAM {{
    Protocols = 3;
    Enable_UDP = true;
    NFS_Port = 2049;
    MNT_Port = 20048;
    NLM_Port = 32803;
    Enable_RQUOTA = false;
    mount_path_pseudo = true;
}}
EXPORT_DEFAULTS {{ Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Transports = TCP, UDP; Protocols = 3; }}
EXPORT {{
    Export_Id = 1;
    Path = {folder};
    Pseudo = /volume;
    MaxRead = 1048576; MaxWrite = 1048576; PrefRead = 1048576; PrefWrite = 1048576;
    FSAL {{ Name = VFS; fsid_type = Dev; }}
}}
NFSv4 {{ Graceless = true; }}
LOG {{ Default_Log_Level = EVENT; }}
"""


def _die_with_parent():
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _run(*command, check=True):
    subprocess.run(command, check=check, stdin=subprocess.DEVNULL, capture_output=not check)


class Ganesha:
    """One Ganesha process with its rpcbind, a server namespace and a client namespace joined by a veth."""

    SERVER, CLIENT = "10.77.240.1", "10.77.240.2"

    def __init__(self, folder, *, cpus=None, name=None):
        """folder: what is exported; made if missing. cpus: list for taskset, for instance "0"."""
        name = name or f"gan{os.getpid()}"
        self.folder = pathlib.Path(folder).resolve()
        self.cpus = cpus
        self.server_netns, self.netns = f"{name}-srv", f"{name}-cli"
        self.link = f"g{os.getpid() % 10**7}"
        self.address, self.export, self.port, self.mount_port = self.SERVER, "/volume", 2049, 20048
        self.work, self.processes, self.pid = None, [], None

    def __enter__(self):
        try:
            self._make_network()
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def _make_network(self):
        for netns in (self.server_netns, self.netns):
            _run("ip", "netns", "add", netns)
            _run("ip", "-n", netns, "link", "set", "lo", "up")
        _run("ip", "link", "add", f"{self.link}s", "netns", self.server_netns, "type", "veth",
             "peer", "name", f"{self.link}c", "netns", self.netns)
        for netns, device, address in ((self.server_netns, f"{self.link}s", self.SERVER),
                                       (self.netns, f"{self.link}c", self.CLIENT)):
            _run("ip", "-n", netns, "addr", "add", f"{address}/24", "dev", device)
            _run("ip", "-n", netns, "link", "set", device, "up")

    def _spawn(self, *command):
        log = open(self.work / "log", "ab")
        process = subprocess.Popen(["nsenter", f"--net=/run/netns/{self.server_netns}", *command],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with_parent)
        self.processes.append(process)
        return process

    def start(self):
        """Starts rpcbind and Ganesha in a mount namespace whose /run is private; returns when port 2049 answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.work = self.work or pathlib.Path(tempfile.mkdtemp(prefix="slice-ganesha-"))
        (self.work / "ganesha.conf").write_text(CONFIG.format(folder=self.folder))
        (self.work / "lib").mkdir(exist_ok=True)
        ganesha = f"ganesha.nfsd -F -L {self.work}/ganesha.log -f {self.work}/ganesha.conf -p /run/ganesha.pid"
        if self.cpus:
            ganesha = f"taskset -c {self.cpus} {ganesha}"
        # Ganesha reads /etc/mtab, which a minimal Debian lacks.
        mtab = ("{ test -e /etc/mtab || { mkdir -p /run/etc/upper /run/etc/work && "
                "mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work /etc && "
                "ln -s /proc/self/mounts /etc/mtab; }; }")
        script = (f"mount -t tmpfs tmpfs /run && mkdir -p /run/ganesha /run/lock && {mtab} && "
                  f"mount --bind {self.work}/lib /var/lib/nfs && mkdir -p /var/lib/nfs/ganesha && "
                  "{ rpcbind -f & } && sleep 0.3 && "
                  f"{ganesha} & echo $! > {self.work}/pid; wait $!")
        self._spawn("unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "bash", "-c", script)
        deadline = time.monotonic() + 20
        while not self._answers():
            if time.monotonic() > deadline or self.processes[-1].poll() is not None:
                raise RuntimeError(f"Ganesha did not start: {self.log()}")
            time.sleep(0.1)
        if "No export entries found" in self.log():
            raise RuntimeError(f"Ganesha exports nothing: {self.log()}")
        self.pid = self._find_pid()

    def _answers(self):
        probe = "import socket; socket.create_connection(('%s', 2049), 1)" % self.address
        command = ["nsenter", f"--net=/run/netns/{self.netns}", sys.executable, "-c", probe]
        return subprocess.run(command, capture_output=True).returncode == 0

    def _find_pid(self):
        wanted = str(self.work / "ganesha.conf").encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"ganesha.nfsd") and wanted in words:
                return int(entry.name)
        raise RuntimeError("Ganesha's process is not there")

    def log(self):
        text = ""
        for name in ("log", "ganesha.log"):
            path = self.work / name
            text += path.read_text(errors="replace")[-2000:] if path.exists() else ""
        return text

    def kill(self):
        """kill -9 of the server process (and of its rpcbind, with it); start() brings it back."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []
        self.pid = None

    def stop(self):
        self.kill()
        for netns in (self.server_netns, self.netns):
            _run("ip", "netns", "del", netns, check=False)
        if self.work:
            shutil.rmtree(self.work, ignore_errors=True)
            self.work = None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--cpus", help="processors for the server, as taskset -c takes them")
    options = parser.parse_args()

    def leave(number, _frame):
        raise SystemExit(0)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    with Ganesha(options.folder, cpus=options.cpus) as peer:
        print(json.dumps({"netns": peer.netns, "address": peer.address, "export": peer.export, "pid": peer.pid}),
              flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
