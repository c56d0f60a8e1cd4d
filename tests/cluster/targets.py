"""Whom the cluster tests are held against: a Slice ensemble, NFS-Ganesha, or a local folder without any server.

A target is a context manager. Inside it, `client(...)` gives a kernel client (a uml.Guest not yet started, or for the
local folder something that behaves like one), `netns` and `server` serve user-space clients, and `process_names`,
`kill(name)` and `start(name)` act on the processes that serve.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import uml

ROOT = uml.ROOT
sys.path.insert(0, str(ROOT / "tests/bench/peers"))
sys.path.insert(0, str(ROOT / "deploy/local"))
import ensemble  # noqa: E402  (its folder is known only now)
import ganesha  # noqa: E402


def without_prefix(metrics):
    """As sources and tests name metrics."""
    return {name.removeprefix("slice_"): value for name, value in metrics.items()}


class Slice:
    """An ensemble of deploy/local/ensemble.py: one that is up, or with `own` one brought up here and taken away after."""

    name = "slice"
    STRIPE_UNIT = "64KiB"  # suites' files of some hundred KiB have stripes on several storage nodes then

    def __init__(self, instance="local", run_dir=None, bin_dir=None, own=False, config=None, shape=None):
        """shape: what `ensemble.py up` is told besides, as {"directories": 4, "policy": "name-hashing"}; "stripe_unit": None is that which users have."""
        self.command = [sys.executable, str(ROOT / "deploy/local/ensemble.py")]
        self.run_dir, self.bin_dir = pathlib.Path(run_dir or ROOT / "run"), pathlib.Path(bin_dir or ROOT / "build/release/bin")
        self.settings = ["--instance", instance, "--run-dir", str(self.run_dir), "--bin", str(self.bin_dir)]
        if config:
            self.settings += ["--config", str(config)]
        self.own, self.instance = own, instance
        self.shape = []
        for key, value in {"stripe_unit": self.STRIPE_UNIT, **(shape or {})}.items():
            flag = f"--{key.replace('_', '-')}"
            self.shape += [] if value in (None, False) else [flag] if value is True else [flag, str(value)]
        self.export, self.port, self.mount_port = "/", 2049, 20048

    def _ensemble(self, *words):
        done = subprocess.run([*self.command, *words, *self.settings], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"ensemble.py {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def __enter__(self):
        if self.own:
            self._ensemble("up", *self.shape)
        try:
            self.facts = json.loads(self._ensemble("namespaces"))
        except BaseException:
            self.__exit__()
            raise
        self.netns, self.server = self.facts["client"], self.facts["virtual"]
        return self

    def __exit__(self, *_):
        if self.own:
            self._ensemble("clean")

    @property
    def proxy(self):
        return next(name for name in self.process_names if name.startswith("proxy"))

    @property
    def process_names(self):
        return list(self.facts["pids"])

    def servers(self, beginning):
        """Names of the servers that begin so, whatever process each is in."""
        return [name for name in self.facts["processes"] if name.startswith(beginning)]

    def processes_of(self, servers):
        """Names of the processes that these are in, each once."""
        return list(dict.fromkeys(self.facts["processes"][name] for name in servers))

    @property
    def has_xdp(self):
        """Servers that share the proxy's process get no packet from an XDP program."""
        return len(self.process_names) > 1

    def pids(self):
        return json.loads(self._ensemble("namespaces"))["pids"]

    def slicectl(self, *words, check=True):
        """slicectl on the proxy's host; the ended process with its text."""
        command = uml.in_netns(self.facts["proxy"], str(self.bin_dir / "slicectl"), "--config", self.facts["config"], *words)
        return subprocess.run(command, capture_output=True, text=True, check=check)

    def status(self, *options):
        """What `slicectl status --json` says by the manager; None where that does not answer. 3 says that something is wrong. `options`: of slicectl."""
        done = self.slicectl(*options, "status", "--json", check=False)
        said = json.loads(done.stdout) if done.returncode in (0, ensemble.UNWELL) else {"manager_answers": False}
        return said if said["manager_answers"] else None

    def metrics(self, name, *options):
        """The metrics of one process: {name: value}, without the prefix that all have. `options`: of slicectl."""
        return without_prefix(json.loads(self.slicectl("--json", *options, "metrics", name).stdout)["processes"][0]["metrics"])

    def kill(self, name):
        self._ensemble("kill", name)

    def start(self, name):
        self._ensemble("start", name)

    def kill_and_start(self, name):
        """With nothing in between."""
        self._ensemble("restart", name, "--kill")

    def use_programs(self, folder):
        """What is started from now on is of this folder."""
        self.bin_dir = folder
        self.settings[self.settings.index("--bin") + 1] = str(folder)

    def restart(self, name):
        """As `systemctl restart` does: a clean stop, and a start at once."""
        self._ensemble("restart", name)

    def stop(self, name):
        self._ensemble("stop", name)

    def hosts(self):
        """The same ensemble as an ensemble.Ensemble, for who starts and kills without a program for each: its pids are in files, so
        both may be used. load() first, once it is up."""
        return ensemble.Ensemble(self.instance, self.run_dir, self.bin_dir)

    def add_leg(self, link, namespace, number):
        """One more host on the clients' side (ensemble.Ensemble.add_leg). It goes with the others at the end where it is named as
        hosts are."""
        hosts = self.hosts()
        hosts.load()
        hosts.add_leg(link, namespace, number)

    def add_storage_node(self, number):
        return self._add_server("storage", f"store{number}", ensemble.FIRST_SPARE_STORAGE_LEG + number)

    def add_small_file_server(self, number):
        return self._add_server("small-file", f"small{number}", ensemble.FIRST_SPARE_SMALL_FILE_LEG + number)

    def add_directory_server(self, number):
        return self._add_server("directory", f"dir{number}", ensemble.FIRST_SPARE_LEG + number)

    def add_coordinator(self, number):
        return self._add_server("coordinator", f"coord{number}", ensemble.FIRST_SPARE_COORDINATOR_LEG + number)

    def _add_server(self, role, name, leg):
        """One more, on a host of its own, added while all serve; it holds no sites. Its name. The file has it as well, for what is this
        host's alone, and for who starts it."""
        config = pathlib.Path(self.facts["config"])
        with open(config, "a") as file:
            file.write(f'\n[[server]]\nname = "{name}"\nrole = "{role}"\naddress = "10.77.{leg}.2"\n'
                       f'data = "{config.parent}/data/{name}"\n')
        processes = config.parent / "processes.json"
        processes.write_text(json.dumps({**json.loads(processes.read_text()), name: [name]}) + "\n")
        self.add_leg(f"host{leg}", f"{self.facts['proxy'].removesuffix('-proxy')}-host{leg}", leg)
        self.facts = json.loads(self._ensemble("namespaces"))
        self.slicectl("server", "add", name, "--role", role, "--address", f"10.77.{leg}.2")
        self.start(name)
        return name

    def wait_serving(self, patience=60):
        """Until every process serves."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            members = (self.status() or {"servers": []})["servers"]
            pids, process = self.pids(), self.facts["processes"]
            if members and all(m["alive"] and m["state"].startswith("serving") and m["pid"] == pids[process[m["name"]]] for m in members):
                return
            time.sleep(0.1)
        raise SystemExit(f"not all serve after {patience} s: {self.slicectl('status', check=False).stdout}")

    def client(self, command, **settings):
        return uml.Guest(self.netns, self.server, command, export=self.export, **settings)


def with_lines(text, header, *lines):
    """A configuration with these lines in each section of that header, as "[proxy]" or "[[export]]"."""
    return re.sub(rf"^{re.escape(header)}.*$", lambda found: "\n".join([found.group(0), *lines]), text, flags=re.M)


class Ensembles:
    """Makes ensembles for suites that need several, each brought up and taken away by itself."""

    name = "ensembles of its own"

    def __init__(self, instance="local", run_dir=None, bin_dir=None, one_process=False):
        """one_process: each has all its servers in one process."""
        self.instance, self.bin_dir, self.one_process = instance, bin_dir, one_process
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slice-ensembles-", dir=run_dir or "/dev/shm"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self, suffix, config=None, **shape):
        if self.one_process:
            shape["one_process"] = True
        return Slice(f"{self.instance}-{suffix}", self.folder, self.bin_dir, own=True, config=config, shape=shape)


class Peer:
    """NFS-Ganesha over a folder on the disk; proves that a test asks nothing that a known server does not give."""

    name = "ganesha"
    # Ganesha 4.3 lists an entry twice while others come and go, answers READDIR with room for nothing with OK and an
    # empty list, tells a longest name of 1024 bytes, and now and then executes a retransmission again.
    known_failures = {"listing change_while_listing", "udp readdir_errors", "tcp readdir_errors", "udp name_max",
                      "tcp name_max", "udp retransmission", "tcp retransmission"}

    def __init__(self, folder=None):
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="slice-peer-", dir="/var/tmp"))
        self.temporary = folder is None
        self.folder.chmod(0o755)
        self.process_names = ["ganesha"]

    def __enter__(self):
        self.peer = ganesha.Ganesha(self.folder).__enter__()
        self.netns, self.server, self.export = self.peer.netns, self.peer.server, self.peer.export
        self.port, self.mount_port = self.peer.port, self.peer.mount_port
        return self

    def __exit__(self, *_):
        self.peer.stop()
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def pids(self):
        return self.peer.pids()

    def kill(self, _name):
        self.peer.kill()

    def start(self, _name):
        self.peer.start()

    def client(self, command, *, options="", **settings):
        # Ganesha 4.3 answers a client's SETACL with an I/O error instead of refusing the program.
        options = ",".join(filter(None, ["noacl", options]))
        return uml.Guest(self.netns, self.server, command, export=self.export, options=options, **settings)


class LocalRun:
    """A command run in a local folder, with the face of uml.Guest."""

    def __init__(self, folder, command, *, timeout=300, output=None, environment=None, **_):
        self.folder, self.command, self.timeout, self.output = folder, command, timeout, output
        self.environment = {**os.environ, **(environment or {})}
        self.text = ""
        self.late = False

    def __enter__(self):
        self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.watch = threading.Timer(self.timeout, self._end_late)
        self.watch.start()
        return self

    def __exit__(self, *_):
        self.watch.cancel()
        self.process.kill()
        self.process.wait()

    def _end_late(self):
        self.late = True
        self.process.kill()

    def _lines(self):
        for line in self.process.stdout:
            self.text += line
            if self.output:
                self.output.write(line)
                self.output.flush()
            yield line

    def says(self, word):
        return any(word in line for line in self._lines())

    def wait(self):
        for _ in self._lines():
            pass
        code = self.process.wait()
        return uml.EXIT_TIMEOUT if self.late else code


class Local:
    """A local folder without any server: whether a test is right about file systems at all."""

    name = "local"
    netns = server = None
    process_names = ()

    def __init__(self, folder=None):
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="slice-local-", dir="/var/tmp"))
        self.temporary = folder is None
        self.folder.chmod(0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def client(self, command, **settings):
        return LocalRun(self.folder, command, **settings)
