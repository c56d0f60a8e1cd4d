"""The suite of slice-load: the load generator (tests/spec-like) finds nothing wrong over TCP and UDP, with processes here and
with workers that it reaches over TCP, and its reports, comparison and picture say what was run."""

import contextlib
import json
import pathlib
import subprocess
import tempfile
import threading
import time

import uml
from beside import Beside

SPECSFS = {"LOOKUP", "READ", "WRITE", "GETATTR", "READLINK", "READDIR", "CREATE", "REMOVE", "FSSTAT", "SETATTR", "READDIRPLUS",
           "ACCESS", "COMMIT"}
RATES = [150, 300]
WORKER = "127.0.0.1:20490"


def small_specsfs(target, options, transport, rate, seconds, seed, report, patience=30):
    """The command of a small load beside something else: its exit code says whether every reply was right."""
    return [options.programs.parent / "bin/slice-load", "--server", f"{target.server}:{target.port}", "--export", "/", "--mount-port", target.mount_port,
            "--transport", transport, "--mix", "specsfs", "--bytes-per-op", "10KiB", "--rate", rate, "--warm-up", 0.5, "--interval", seconds,
            "--patience", patience, "--seed", seed, "--json", report]


def while_killed(target, options, processes, seconds, patience, *more, pause=0.0):
    """Whether a mixed load of so many seconds finds every reply right while these processes are killed and, after the pause, started, one
    after another; and what it said. `more`: words for slice-load."""
    host = f"[{target.server}]" if ":" in target.server else target.server
    command = [options.programs.parent / "bin/slice-load", "--server", f"{host}:{target.port}", "--mount-port", target.mount_port, "--mix", "mixed",
               "--bytes-per-op", "20KiB", "--rate", 150, "--clients", 4, "--warm-up", 1, "--interval", seconds, "--patience", patience, "--seed",
               options.seed, *more]
    said = []
    worker = threading.Thread(target=lambda: said.extend(uml.run_in_netns(target.netns, command, 3 * patience, output=None)))
    worker.start()
    for process in processes:
        time.sleep(seconds / (len(processes) + 1))
        if pause:
            target.kill(process)
            time.sleep(pause)
            target.start(process)
        else:
            target.kill_and_start(process)
    worker.join()
    target.wait_serving()
    return len(said) == 2 and said[1] == 0, said[0][-1500:] if said else ""


class Lasting(Beside):
    """A context: small loads, of so many operations a second for so many seconds, one after another, over TCP and UDP in turns, until it is left.
    Then `faults` says what was wrong."""

    PATIENCE = 90

    def __init__(self, target, options, folder, rate=25, seconds=8.0):
        super().__init__()
        self.target, self.options, self.folder, self.rate, self.seconds = target, options, pathlib.Path(folder), rate, seconds
        self.faults, self.runs = [], 0

    def run(self):
        while not self.over.is_set() and not self.faults:
            self.runs += 1
            transport = ("tcp", "udp")[self.runs % 2]
            command = small_specsfs(self.target, self.options, transport, self.rate, self.seconds, self.runs, self.folder / "slice-load.json", self.PATIENCE)
            text, code = uml.run_in_netns(self.target.netns, command, self.seconds + 3 * self.PATIENCE, output=None)
            if code != 0:
                self.faults.append(f"run {self.runs}, over {transport}, ends with {code}: {text.strip()[-500:]}")


def load(target, options):
    program = options.programs.parent / "bin/slice-load"
    with tempfile.TemporaryDirectory(prefix="slice-load-") as folder:
        run = Run(target, program, pathlib.Path(folder), options.seed)
        checks = [run.specsfs("tcp"), run.specsfs("udp"), run.by_workers(), run.compared(), run.drawn()]
    return all(checks)


class Run:
    def __init__(self, target, program, folder, seed):
        self.target, self.program, self.folder, self.seed = target, program, folder, seed

    def command(self, name, *more):
        return [self.program, "--server", f"{self.target.server}:{self.target.port}", "--export", self.target.export,
                "--seed", self.seed, "--label", self.target.name, "--json", self.folder / f"{name}.json", *more]

    def load(self, name, *more, timeout=60):
        """A load without a violation, whose report is told."""
        text, code = uml.run_in_netns(self.target.netns, self.command(name, *more), timeout)
        path = self.folder / f"{name}.json"
        report = json.loads(path.read_text()) if path.exists() else {"points": []}
        right = code == 0 and bool(report["points"]) and all(
            point["violations"] == 0 and point["failed"] == 0 and point["achieved_per_second"] > point["offered_per_second"] / 4
            for point in report["points"])
        return right, report

    def say(self, what, ok, why=""):
        print(f"{'ok' if ok else 'not ok'} load {what}{'' if ok else ': ' + str(why)}", flush=True)
        return ok

    def specsfs(self, transport):
        right, report = self.load(transport, "--transport", transport, "--mount-port", self.target.mount_port, "--mix", "specsfs",
                                  "--bytes-per-op", "20KiB", "--rates", ",".join(map(str, RATES)), "--processes", 2, "--warm-up", 0.3,
                                  "--interval", 2)
        seen = {name for point in report["points"] for name in point["operations"]}
        return self.say(f"specsfs_{transport}", right and seen == SPECSFS and len(report["points"]) == len(RATES),
                        f"operations {sorted(seen)}")

    def by_workers(self):
        """The controller has two processes of a worker make the load; by the port that PORTMAP tells."""
        command = uml.in_netns(self.target.netns, str(self.program), "worker", "--listen", WORKER)
        with contextlib.ExitStack() as stack:
            worker = stack.enter_context(subprocess.Popen(command))
            stack.callback(worker.terminate)
            time.sleep(0.3)
            right, report = self.load("workers", "--hosts", WORKER, "--processes", 2, "--mix", "untar", "--rate", 200, "--warm-up", 0.2, "--interval", 1)
        return self.say("workers", right and report["processes"] == 2, report)

    def compared(self):
        done = subprocess.run([self.program, "--compare", self.folder / "tcp.json", self.folder / "udp.json"],
                              capture_output=True, text=True)
        loads = [line.split()[0] for line in done.stdout.splitlines()[3:]]
        return self.say("compare", done.returncode == 0 and loads[:2] == [f"{rate:.1f}" for rate in RATES], done.stdout)

    def drawn(self):
        picture = self.folder / "both.svg"
        done = subprocess.run([self.program, "--plot", picture, "--from", f"{self.folder / 'tcp.json'},{self.folder / 'udp.json'}"],
                              capture_output=True, text=True)
        text = picture.read_text() if picture.exists() else ""
        good = done.returncode == 0 and all(f"{self.target.name} ({transport})" in text for transport in ("tcp", "udp"))
        return self.say("picture", good and text.rstrip().endswith("</svg>"), done.stderr)
