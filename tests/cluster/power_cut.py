"""The suite `power-cut`: servers on hosts of their own, whose power is cut under load.

A host is a guest (user-mode Linux) with a disk of its own (ext4 on an image). SIGKILL of the guest is the power cut: its page cache is gone, and
what was not synced is lost or torn. `kill -9` of a process keeps all that, so no other suite would notice a sync that is missing.

First every server's host in turn loses its power, then all at once: nothing that was acknowledged may be missing, every store starts, and the name
space is whole. Then the test is tested: with the syncs of one kind of file taken out of one server (skip_fsync.cc), it must find a loss."""

import dataclasses
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import types

import crashes
import uml
from targets import ensemble

DISK_BYTES = 1 << 30  # sparse
REACH = 300_000  # bytes: where in files the load's writes begin
UP_SECONDS, DARK_SECONDS = 2.5, 0.5  # of load before a cut, and without power
AWAY_SECONDS, REMOVED_SECONDS = 1.5, 30
LOAD_SECONDS = 1800  # at the most
ATTEMPTS = 4  # to have a missing sync lose something
SERVES_SECONDS = 90  # for a host to boot and its server to serve, on a busy machine
NETWORK = "10.77"
SERVES = " serving as "  # in a server's log, each time it starts


def words(command):
    return " ".join(shlex.quote(str(word)) for word in command)


class Host(uml.Guest):
    """A boot of one server's host. Its network is the leg that is there already; its disk is mounted where the server has its data.

    noauto_da_alloc: a file that is renamed over another is not written back for that alone, as the standard has it."""

    def __init__(self, netns, leg, disk, mount_point, write_back, command, log, environment):
        start = (f"mount -t ext4 -o noatime,noauto_da_alloc /dev/ubda {mount_point} && {{ {words(write_back)} & }} && "
                 f"exec env {words(f'{key}={value}' for key, value in environment.items())} {words(command)}")
        super().__init__(netns, None, ["sh", "-c", start], mount=False, memory="384M", timeout=3600, output=log)
        self.modules, self.leg, self.disk = [], leg, disk

    def _connect(self):
        self.tap, self.address, self.gateway = f"host{self.leg}", f"{NETWORK}.{self.leg}.2", f"{NETWORK}.{self.leg}.1"

    def _devices(self):
        return [f"ubd0={self.disk}"]


class Hosts(ensemble.Ensemble):
    """An ensemble of which the servers `hosted` run on hosts of their own; the others as always."""

    def __init__(self, instance, run_dir, bin_dir, programs, hosted, disks, **shape):
        """programs: the folder of the tests' own; disks: one for the images."""
        super().__init__(instance, run_dir, bin_dir, **shape)
        self.programs, self.hosted, self.disks, self.hosts = programs, hosted, pathlib.Path(disks), {}
        self.unsynced = {}  # of a server: the pattern of the files whose syncs are taken out
        self.served = {}  # how often each had said that it serves before it was started last

    def host_ns(self, server):
        return self.proxy_ns() if server["name"] in self.hosted else super().host_ns(server)

    def make_network(self):
        super().make_network()
        for name in self.hosted:
            leg = self.leg_number(self.server(name))
            self.ip(self.proxy_ns(), "tuntap", "add", f"host{leg}", "mode", "tap")
            self.ip(self.proxy_ns(), "addr", "add", f"{NETWORK}.{leg}.1/24", "dev", f"host{leg}")
            self.ip(self.proxy_ns(), "link", "set", f"host{leg}", "up")
            self.make_disk(name)

    def disk(self, name):
        return self.disks / f"{name}.disk"

    def make_disk(self, name):
        (self.dir / "data" / name).mkdir(parents=True, exist_ok=True)  # the mount point
        with open(self.disk(name), "wb") as image:
            image.truncate(DISK_BYTES)
        root = self.disks / f"{name}.root"
        (root / name).mkdir(parents=True)
        ensemble.run("mke2fs", "-q", "-t", "ext4", "-d", root, self.disk(name))

    def start(self, name, crash_at=None):
        if name not in self.hosted:
            return super().start(name, crash_at)
        server = self.server(name)
        self.served[name] = self.said(name).count(SERVES)
        environment = {}
        if name in self.unsynced:
            environment = {"SLICE_SKIP_FSYNC": self.unsynced[name], "LD_PRELOAD": self.programs / "skip_fsync.so"}
        log = open(self.dir / "log" / f"{name}.log", "a", encoding="utf-8")
        command = [self.bin / ensemble.PROGRAMS[server["role"]], "--config", self.config_path, "--name", name]
        write_back = [self.programs / "early_writeback", self.dir / "data" / name, len(self.said(name)), self.unsynced.get(name, "")]  # another seed each time
        self.hosts[name] = Host(self.proxy_ns(), self.leg_number(server), self.disk(name), self.dir / "data", write_back, command, log,
                                environment).start()

    def pid(self, name):
        if name not in self.hosted:
            return super().pid(name)
        host = self.hosts.get(name)
        return host.process.pid if host and host.process and host.process.poll() is None else None

    def end(self, name, number, patience=10.0):
        if name not in self.hosted:
            return super().end(name, number, patience)
        if name in self.hosts:
            host = self.hosts.pop(name)
            host.stop()
            host.output.close()

    def wait_serving(self, patience=SERVES_SECONDS):
        """Until each serves that was started: the manager still takes one whose power was cut for serving."""
        end = time.monotonic() + patience
        while any(self.said(name).count(SERVES) == before and self.pid(name) for name, before in self.served.items()):
            if time.monotonic() > end:
                break
            time.sleep(0.1)
        super().wait_serving(max(1, end - time.monotonic()))

    def cut(self, names):
        """Cuts the power of these at once, and gives it back."""
        for name in names:
            self.end(name, signal.SIGKILL)
        time.sleep(DARK_SECONDS)
        for name in names:
            self.start(name)

    def said(self, name):
        log = self.dir / "log" / f"{name}.log"
        return log.read_text(errors="replace") if log.exists() else ""


class Fresh:
    """A context with a fresh ensemble, whose data is gone at its end; policy: what `policy set /` is told first."""

    def __init__(self, target, options, suffix, hosted, unsynced=None, policy=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slice-power-", dir="/var/tmp"))  # guests see it
        self.disks = pathlib.Path(tempfile.mkdtemp(prefix="slice-power-", dir="/dev/shm"))
        self.folder.chmod(0o755)
        self.hosts = Hosts(f"{target.instance}-{suffix}", self.folder, target.bin_dir or uml.ROOT / "build/release/bin", options.programs,
                           hosted, self.disks)
        self.hosts.unsynced, self.policy = unsynced or {}, policy

    def __enter__(self):
        try:
            self.hosts.up()
            if self.policy:
                self.hosts.slicectl("policy", "set", "/", *self.policy)
            return self.hosts
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        try:
            self.hosts.down()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.rmtree(self.disks, ignore_errors=True)


class Load:
    """A program that puts load on the ensemble, beside what is done to its hosts; then what came of it."""

    def __init__(self, hosts, options, reach, pause_ms=0):
        """pause_ms: between the operations of each of its workers."""
        self.hosts, self.options, self.reach, self.pause_ms = hosts, options, reach, pause_ms
        self.wanted = hosts.dir / "load-wanted"  # a file: the load goes on as long as it is there

    def command(self, verb, *more):
        return [self.options.programs / "durability", verb, *reach_of(self.hosts), "--log", self.hosts.dir / "acknowledged", *more]

    def work(self):
        return self.command("load", *self.time(), "--patience", SERVES_SECONDS, "--seed", self.options.seed, "--reach", self.reach,
                            "--pause-ms", self.pause_ms)

    def time(self):
        return ["--seconds", LOAD_SECONDS, "--while", self.wanted]

    def __enter__(self):
        self.wanted.touch()
        self.process = subprocess.Popen(uml.in_netns(self.hosts.client_ns(), *map(str, self.work())), stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        """Waits for its end. One that waits for servers that do not come back is ended."""
        try:
            self.wanted.unlink(missing_ok=True)
            self.saw_error = self.process.wait(2 * SERVES_SECONDS) != 0
        except subprocess.TimeoutExpired:
            self.give_up()
            self.saw_error = True

    def prepare(self):
        """Before a server goes away that is to be owed something."""

    def while_away(self):
        """What it does to it then."""

    def give_up(self):
        self.process.kill()
        self.process.wait()

    def verifies(self, output=sys.stdout):
        return uml.run_in_netns(self.hosts.client_ns(), self.command("verify"), 120, output)[1] == 0


class Unstable(Load):
    """Stable bytes whose neighbours are written unstably all the time."""

    def command(self, verb, *more):
        return [self.options.programs / "unstable_writes", verb, *reach_of(self.hosts), *more]

    def work(self):
        return self.command("write", *self.time())


class Removals(Load):
    """Files that are removed while a storage node is away, so that it is owed what removes its objects."""

    FILES = 4  # each time

    def __enter__(self):
        clients = types.SimpleNamespace(netns=self.hosts.client_ns(), server=self.hosts.virtual)
        self.client = crashes.Client(clients, self.options, "--folder", "durability-removals")
        self.saw_error, self.made, self.names = False, 0, []
        return self

    def __exit__(self, *_):
        self.client.close()

    def while_away(self):
        for name in self.names:
            self.client.do("run", name)
        self.names = []

    def prepare(self):
        self.names = [f"case{self.made + number}" for number in range(self.FILES)]
        self.made += self.FILES
        for name in self.names:
            self.client.do("prepare", name, "remove")

    def give_up(self):
        pass

    def verifies(self, output=sys.stdout):
        return True  # what stays of removed files is looked for in any case


def reach_of(hosts):
    return ["--server", hosts.virtual, "--export", "/", "--port", 2049, "--mount-port", 20048]


def say(good, text):
    print(f"{'ok' if good else 'not ok'} power-cut {text}", flush=True)
    return good


# How the files lie of which nothing may be lost.
LAYOUTS = {"hosts": (), "mirrored": ("--copies", "2"), "mapped": ("--placement", "free-space")}


def whole(hosts, layout, when):
    """Names and bytes, by slicectl fsck."""
    fsck = hosts.slicectl("fsck", "--data", check=False)
    said = (fsck.stdout + fsck.stderr).strip()
    return say(fsck.returncode == 0, f"{layout}: fsck --data {when}: {said if fsck.returncode else said.splitlines()[-1]}")


def servers_said(hosts):
    """The ends of their logs, before these go with the ensemble: whoever was waited for should be told by them."""
    for server in hosts.servers:
        print(f"---- log of {server['name']}\n{hosts.log_tail(server['name'])}", flush=True)


def stays_whole(target, options, names, layout):
    """Each host's power is cut in turn, then that of all."""
    rounds = [[name] for name in names for _ in range(max(1, int(options.scale)))] + [list(names)]
    with Fresh(target, options, "cut", names, policy=LAYOUTS[layout]) as hosts:
        with Load(hosts, options, REACH) as load:
            for together in rounds:
                time.sleep(UP_SECONDS)
                hosts.cut(together)
                hosts.wait_serving()
                print(f"power cut of {' '.join(together)}: serving again", flush=True)
        ok = say(not load.saw_error, f"{layout}: the load saw no error")
        if load.saw_error:
            servers_said(hosts)
        ok &= say(load.verifies(), f"{layout}: nothing that was acknowledged is missing")
        ok &= whole(hosts, layout, "before they are removed")
        ok &= say(removes_all(hosts), f"{layout}: of files that are removed nothing stays")
        return ok & whole(hosts, layout, "when they are")


@dataclasses.dataclass
class Kind:
    """A kind of file of one kind of server, as a pattern of its path."""
    server: str
    what: str
    pattern: str
    seconds: float = UP_SECONDS  # of load before each cut, until such files matter
    load: type = Load
    reach: int = REACH
    policy: tuple = ()  # of the volume
    away: str = ""  # a server that is killed before each cut and back after it, so that something is owed to it


KINDS = [
    Kind("dir1", "log", "*/cells/*.log"),
    Kind("dir1", "tables", "*/cells/*.sst"),
    Kind("dir1", "manifest", "*/cells/MANIFEST-*"),
    Kind("small1", "journal", "*/journal/*"),
    Kind("small1", "zones", "*/zones/*", 9),
    Kind("small1", "maps", "*/maps/*.log", 12, reach=60_000),
    Kind("small1", "map tables", "*/maps/*.sst", 12, reach=60_000),
    Kind("small1", "map manifest", "*/maps/MANIFEST-*", 12, reach=60_000),
    Kind("store1", "objects", "*/objects/*"),
    Kind("store1", "marks", "*/marks", 4, Unstable),
    Kind("coord1", "intentions", "*/intentions/*", 1, Removals, away="store2"),
    Kind("coord1", "block maps", "*/maps/*.log", policy=LAYOUTS["mapped"]),
    Kind("coord1", "block map tables", "*/maps/*.sst", policy=LAYOUTS["mapped"]),
    Kind("coord1", "block map manifest", "*/maps/MANIFEST-*", policy=LAYOUTS["mapped"]),
    Kind("manager1", "state", "*/manager.state*"),
]


def loss_is_found(target, options, kind):
    """The syncs of these files are taken out; then the server's own start, the load, or the check after it must tell of a loss. Whether
    anything that matters was on its way when the power went is chance, so there are several attempts."""
    name = f"{kind.server} without syncs of {kind.what}"
    for attempt in range(1, ATTEMPTS + 1):
        with Fresh(target, options, "skip", [kind.server], {kind.server: kind.pattern}, kind.policy) as hosts:
            found = lost_after_cuts(hosts, options, kind)
            if "skip_fsync: " not in hosts.said(kind.server):
                return say(False, f"{name}: no such file was synced, so nothing was shown")
        if found is not None:
            return say(True, f"{name}: {found}")
        print(f"power-cut {name}: attempt {attempt} lost nothing", flush=True)
    return say(False, f"{name}: NOT FOUND")


def lost_after_cuts(hosts, options, kind):
    """What told of a loss, or None."""
    with kind.load(hosts, options, kind.reach) as load:
        for _ in range(2):  # what is written while a store starts is lost in the second at the earliest
            load.prepare()
            time.sleep(kind.seconds)
            if why := cut_and_wait(hosts, kind, load):
                load.give_up()
                return why
    if load.saw_error:
        return "the load saw an error"
    hosts.unsynced = {}
    if why := cut_and_wait(hosts, kind, load):
        return why
    if not load.verifies(output=None):
        return "something that was acknowledged is missing"
    return None if removes_all(hosts) else "objects of removed files stay on storage nodes"


def cut_and_wait(hosts, kind, load):
    """Why the server does not serve after a cut of its host's power, or None when it does."""
    if kind.away:
        hosts.end(kind.away, signal.SIGKILL)
        load.while_away()
        time.sleep(AWAY_SECONDS)
    hosts.cut([kind.server])
    if kind.away:
        hosts.start(kind.away)
    try:
        hosts.wait_serving()
        return None
    except ensemble.Failure as failure:
        return f"refused to start: {str(failure).splitlines()[-1][:160]}"


def removes_all(hosts):
    """Whether no object is left on those storage nodes whose folders are here, when a client has removed every file."""
    with uml.Guest(hosts.client_ns(), hosts.virtual, ["sh", "-c", "rm -rf durability-*"], output=sys.stdout) as client:
        if client.wait() != 0:
            return False
    here = [server for server in hosts.servers if server["role"] == "storage" and server["name"] not in hosts.hosted]
    folders = [pathlib.Path(server["data"]) / "objects" for server in here]
    end = time.monotonic() + REMOVED_SECONDS
    while time.monotonic() < end:
        if not any(path.is_file() for folder in folders for path in folder.rglob("*")):
            return True
        time.sleep(0.3)
    return False


def power_cut(target, options):
    servers = [server["name"] for server in hosted_servers()]
    wanted = options.only.split(",") if options.only else [*LAYOUTS, *[f"{kind.server}:{kind.what}" for kind in KINDS]]
    good = all([stays_whole(target, options, servers, layout) for layout in LAYOUTS if layout in wanted])
    for kind in KINDS:
        if f"{kind.server}:{kind.what}" in wanted:
            good &= loss_is_found(target, options, kind)
    return good


def hosted_servers():
    """One of each role that has data."""
    roles = {}
    for server in tomllib.loads((uml.ROOT / "deploy/local/ensemble.toml").read_text())["server"]:
        if "data" in server:
            roles.setdefault(server["role"], server)
    return list(roles.values())
