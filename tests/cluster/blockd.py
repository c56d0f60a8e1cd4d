"""slice-blockd on a host of its own, for suites and benchmarks."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

from resident import resident

PORT = 10809
STARTS, ENDS = 30, 30  # seconds
CHECKED = "--verify=crc32c --verify_fatal=1 --serialize_overlap=1 --randrepeat=0 --group_reporting --minimal"


class Blockd:
    """slice-blockd on a host of its own."""

    def __init__(self, target, leg, *words):
        self.target = target
        self.host = f"10.77.{leg}.2"
        self.namespace = f"{target.facts['proxy'].removesuffix('-proxy')}-host{leg}"
        self.folder = pathlib.Path(target.facts["config"]).parent / f"blockd{leg}"
        self.folder.mkdir()
        target.add_leg(f"host{leg}", self.namespace, leg)
        self.socket, self.log = self.folder / "nbd.sock", self.folder / "log"
        self.words, self.process = words, None

    def command(self):
        return [self.target.bin_dir / "slice-blockd", "--config", self.target.facts["config"], "--listen", self.host, "--allow", "10.77.0.0/16"]

    def start(self):
        said = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["nsenter", f"--net=/run/netns/{self.namespace}", *(str(word) for word in self.command()), "--unix", str(self.socket),
                                             "--metrics", f"{self.host}:9100", *self.words], stdout=log, stderr=log)
        end = time.monotonic() + STARTS
        while time.monotonic() < end and (not self.socket.exists() or f"serves NBD at {self.socket}" not in self.log.read_text()[said:]):
            time.sleep(0.05)

    def end(self, number=signal.SIGTERM):
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)
        self.process.wait(ENDS)
        self.process = None

    def hang_up(self):
        os.kill(self.process.pid, signal.SIGHUP)

    def at(self, name):
        return f"nbd+unix:///{name}?socket={self.socket}"

    def memory(self):
        """Bytes of the process that are in memory."""
        return resident(self.process.pid)

    def metric(self, name):
        page = subprocess.run(["nsenter", f"--net=/run/netns/{self.namespace}", "python3", "-c", "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())",
                               f"http://{self.host}:9100/metrics"], capture_output=True, text=True, check=True).stdout
        return sum(float(value) for value in re.findall(rf"^slice_{name}(?:{{.*}})? (\S+)$", page, re.M))


def fio(blockd, name, *words):
    # The engine's own options come behind it.
    return ["fio", "--name=volume", "--ioengine=nbd", f"--uri={blockd.at(name)}", *CHECKED.split(), *words]
