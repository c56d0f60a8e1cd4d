"""What the peers share, servers to hold our tests and figures against: a server namespace and a client namespace joined by a veth,
processes that die with the harness, and a private /run and /var/lib/nfs.

Namespaces carry the pid of the process that made them; both go when it ends.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cluster"))
import uml  # noqa: E402  (its folder is known only now)


def run(*command, check=True):
    subprocess.run(command, check=check, stdin=subprocess.DEVNULL, capture_output=not check)


class Peer:
    """A context: peer.netns is a client namespace that reaches it at peer.server, peer.export; peer.pids() are the processes
    that serve, by name. A kind of server says how its processes start, in script(), and which they are."""

    SERVER, CLIENT = "10.77.240.1", "10.77.240.2"
    TITLE, LETTER = "the peer", "p"  # how messages call it; of its namespaces' and links' names

    def __init__(self, folder, export, *, cpus=None):
        """folder: what is exported; made if missing. cpus: of its processes, a list for taskset, for instance "0"."""
        name = f"peer{self.LETTER}{os.getpid()}"
        self.folder = pathlib.Path(folder).resolve()
        self.cpus = cpus
        self.server_netns, self.netns = f"{name}-srv", f"{name}-cli"
        self.link = f"{self.LETTER}{os.getpid() % 10**7}"
        self.server, self.export, self.port, self.mount_port = self.SERVER, export, 2049, 20048
        self.work, self.processes = None, []

    def script(self):
        """Shell commands that start the server in the server namespace, with mounts of its own, and stay."""
        raise NotImplementedError

    def started(self):
        """After port 2049 answers."""

    def pids(self):
        raise NotImplementedError

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
            run("ip", "netns", "add", netns)
            run("ip", "-n", netns, "link", "set", "lo", "up")
        run("ip", "link", "add", f"{self.link}s", "netns", self.server_netns, "type", "veth",
            "peer", "name", f"{self.link}c", "netns", self.netns)
        for netns, device, address in ((self.server_netns, f"{self.link}s", self.SERVER),
                                       (self.netns, f"{self.link}c", self.CLIENT)):
            run("ip", "-n", netns, "addr", "add", f"{address}/24", "dev", device)
            run("ip", "-n", netns, "link", "set", device, "up")

    def in_server(self, *command):
        return uml.in_netns(self.server_netns, *command)

    def start(self):
        """Starts rpcbind and the server in a mount namespace whose /run is private; returns when port 2049 answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.work = self.work or pathlib.Path(tempfile.mkdtemp(prefix="slice-peer-"))
        (self.work / "lib").mkdir(exist_ok=True)
        script = ("mount -t tmpfs tmpfs /run && mkdir -p /run/lock && "
                  f"mount --bind {self.work}/lib /var/lib/nfs && {{ rpcbind -f & }} && sleep 0.3 && {self.script()}")
        with open(self.work / "log", "ab") as log:
            command = self.in_server(*(["taskset", "-c", self.cpus] if self.cpus else []), "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "bash", "-c", script)
            self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                   preexec_fn=uml.die_with_parent))
        deadline = time.monotonic() + 60
        while not self._answers():
            if time.monotonic() > deadline or self.processes[-1].poll() is not None:
                raise RuntimeError(f"{self.TITLE} did not start: {self.log()}")
            time.sleep(0.1)
        self.started()

    def _answers(self):
        probe = "import socket; socket.create_connection(('%s', 2049), 1)" % self.server
        return subprocess.run(uml.in_netns(self.netns, sys.executable, "-c", probe), capture_output=True).returncode == 0

    def log(self):
        return "".join(path.read_text(errors="replace")[-2000:] for path in sorted(self.work.glob("*log")))

    def kill(self):
        """kill -9 of the server's processes (and of its rpcbind, with them); start() brings it back."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []

    def stop(self):
        self.kill()
        for netns in (self.server_netns, self.netns):
            run("ip", "netns", "del", netns, check=False)
        if self.work:
            shutil.rmtree(self.work, ignore_errors=True)
            self.work = None


def main(kind):
    """As a command: PEER FOLDER serves until SIGTERM or end of standard input, after printing one line of JSON: how to reach it."""
    parser = argparse.ArgumentParser(description=kind.__doc__)
    parser.add_argument("folder")
    parser.add_argument("--cpus", help="processors for the server's processes, as taskset -c takes them")
    options = parser.parse_args()

    def leave(number, _frame):
        raise SystemExit(0)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    with kind(options.folder, cpus=options.cpus) as peer:
        print(json.dumps({"netns": peer.netns, "server": peer.server, "export": peer.export, "pids": peer.pids()}), flush=True)
        sys.stdin.read()
