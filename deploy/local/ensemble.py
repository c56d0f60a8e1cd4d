#!/usr/bin/env python3
"""A whole ensemble on this machine: every host of `ensemble.toml` is a network namespace, joined by veth links to the
proxy's namespace, which routes between them and the client's namespace and holds the virtual address.

    ensemble.py up [--config FILE] [--directories N] [--storage N] [--policy mkdir-switching|name-hashing] [--probability P] [--copies N] [--stripe-unit SIZE]
                   [--managers N --etcd [MEMBERS]] [--ipv6 [clients|all]] [--one-process] [--unprivileged] [--patience SECONDS]
                                        make the namespaces, start every process, wait until all serve; --one-process: all servers are
                                        one slice-hostd on one host, and call each other without sockets; --unprivileged: each process with
                                        the user, capabilities and system calls that its unit in deploy/systemd says; --managers: several,
                                        that share their state in an etcd of so many members (3), on hosts of their own; --ipv6: the
                                        volume has a second address, of IPv6, for clients; all: and its servers have addresses of IPv6
                                        alone; --patience: how long that may take (default 30), where the machine is emulated
    ensemble.py down                    stop what `up` started, take the namespaces away (data stays)
    ensemble.py status                  the processes that `up` started, and whether each runs
    ensemble.py kill|stop|start|restart NAME [--kill] [--crash-at POINT[:N]]   one process (kill: SIGKILL; stop: SIGTERM); --kill:
                                        restart by SIGKILL; --crash-at: it kills itself at that crash point (docs/operations.md)
    ensemble.py namespaces              JSON: names of the namespaces, the virtual address, pids
    ensemble.py clean                   down, and remove the data

Several ensembles may run side by side: each has an --instance with its own namespaces and its own folder under
--run-dir. Only processes that this program started are ever signalled, by pid."""

import argparse
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))  # this file may be imported from anywhere
import confine  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT_NET = 1  # leg
NET, NET6 = "10.77.{}", "fd77:0:0:{}:"  # of each leg: where .1 and :1 are the proxy's, .2 and :2 the other end's
VIRTUAL6 = "fd77::1"
SERVER_ADDRESS = re.compile(r"10\.77\.(\d+)\.2|fd77:0:0:(\d+)::2")
HOST_PROCESS = "host1"  # of --one-process
HOST_PROGRAM = "slice-hostd"
PROGRAMS = {
    "manager": "slice-managerd",
    "directory": "slice-dird",
    "small-file": "slice-smallfiled",
    "storage": "slice-stored",
    "coordinator": "slice-coordd",
    "proxy": "slice-proxyd",
}
# The manager first, since data servers draw a verifier from it, and storage nodes before those that may keep what they have on them; the
# proxy last, when there is something behind it. They end the other way round.
START_ORDER = ["manager", "storage", "directory", "small-file", "coordinator", "proxy"]

BACKED_ROLE = re.compile(r'^role = "(directory|small-file|coordinator)"$', re.MULTILINE)  # may have a backing set

UNITS = ROOT / "deploy/systemd"
UNPRIVILEGED = 64738  # the number of --unprivileged's user and group, which need no name

FIRST_SPARE_LEG = 20  # hosts of the directory servers that the template does not have
MAX_DIRECTORIES = 16
FIRST_SPARE_STORAGE_LEG = 40  # and of storage nodes
MAX_STORAGE_NODES = 16
FIRST_SPARE_SMALL_FILE_LEG = 60  # and of small-file servers
MAX_SMALL_FILE_SERVERS = 16
FIRST_SPARE_COORDINATOR_LEG = 80  # and of coordinators
MAX_COORDINATORS = 8
FIRST_SPARE_MANAGER_LEG = 100  # and of managers
MAX_MANAGERS = 7
FIRST_ETCD_LEG = 120  # of members of etcd, where the managers share their state in one
MAX_ETCD_MEMBERS = 7
ETCD_PORT, ETCD_PEER_PORT = 2379, 2380
FIRST_STANDBY_LEG = 150  # hosts where servers with a backing set may run besides
STANDBY = "-standby"  # behind a server's name: its process there


UNWELL = 3  # exit code of `slicectl status` where something is wrong


class Failure(Exception):
    """A message for the operator; no traceback."""


def run(*command, check=True, **kwargs):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **kwargs)
    if check and done.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done


def set_volume_key(text, key, value):
    """The configuration with this key of [volume] set; it may or may not be there already."""
    head, rest = text.split("[volume]\n", 1)
    volume, bracket, tail = rest.partition("\n[")
    lines = [line for line in volume.split("\n") if line.split("=")[0].strip() != key]
    while lines and not lines[-1]:
        lines.pop()
    return f"{head}[volume]\n" + "\n".join([*lines, f"{key} = {value}", ""]) + bracket + tail


def with_servers(text, option, role, name, wanted, leg, most):
    """The configuration with that many servers of a role: the template's last ones go, or more are added on hosts of their own."""
    head, *servers = text.split("\n[[server]]\n")
    there = [s for s in servers if f'role = "{role}"' in s]
    if not 1 <= wanted <= most:
        raise Failure(f"{option} {wanted}: from 1 to {most}")
    servers = [s for s in servers if s not in there[wanted:]]
    servers += [f'name = "{name}{number}"\nrole = "{role}"\naddress = "10.77.{leg + number}.2"\ndata = "@RUN@/data/{name}{number}"\n'
                for number in range(len(there) + 1, wanted + 1)]
    return "\n[[server]]\n".join([head, *servers])


def with_backing(text, copies, standbys):
    """The configuration with a backing set for every server that may have one; standbys: and with one more host where it may run."""
    head, *servers = text.split("\n[[server]]\n")
    legs = itertools.count(FIRST_STANDBY_LEG)

    def backed(server):
        if not BACKED_ROLE.search(server):
            return server
        places = f'standbys = ["10.77.{next(legs)}.2"]\n' if standbys else ""
        return server.rstrip("\n") + f'\nbacking = "replicated"\nbacking_copies = {copies}\n{places}'
    return "\n[[server]]\n".join([head, *map(backed, servers)])


def with_etcd(text, members):
    """The configuration of managers that share their state in an etcd of so many members."""
    if not 1 <= members <= MAX_ETCD_MEMBERS:
        raise Failure(f"--etcd {members}: from 1 to {MAX_ETCD_MEMBERS}")
    urls = ", ".join(f'"http://10.77.{FIRST_ETCD_LEG + number}.2:{ETCD_PORT}"' for number in range(1, members + 1))
    head, bracket, servers = text.partition("\n[[server]]\n")
    return f"{head}\n[managers]\netcd = [{urls}]\n{bracket}{servers}"


def with_ipv6(text, whose):
    """The configuration of a volume with an address of either family; "all": and of servers that have addresses of IPv6 alone."""
    text = re.sub(r'^virtual_address = ("[^"]*")$', rf'virtual_address = [\1, "{VIRTUAL6}"]', text, flags=re.MULTILINE)
    text = re.sub(r'^clients = "10.77.0.0/16"$', 'clients = ["10.77.0.0/16", "fd77::/16"]', text, flags=re.MULTILINE)
    text = text.replace('scrapers = ["10.77.0.0/16"]', 'scrapers = ["10.77.0.0/16", "fd77::/16"]')
    if whose == "all":
        text = re.sub(r'"10\.77\.(\d+)\.([12])"', lambda found: f'"{NET6.format(found[1])}:{found[2]}"', text.replace("standbys = [", "standbys = [ "))
        text = text.replace(f'"{NET6.format(0)}:1"', '"10.77.0.1"')
    return text


def etcd_members(config):
    """Its etcd's members, as servers are described."""
    urls = config.get("managers", {}).get("etcd", [])
    return [{"name": f"etcd{number}", "role": "etcd", "address": re.match(r"http://([0-9.]+):", url)[1]} for number, url in enumerate(urls, 1)]


def shaped(text, directories=None, storage=None, small_files=None, coordinators=None, managers=None, etcd=None, policy=None, probability=None, copies=None, stripe_unit=None,
           backing=None, standbys=None, ipv6=None, one_process=None, xdp=None):
    """A template of ensemble.toml with that many servers of each role, added at its end on hosts of their own, that policy for names, and
    that many copies of new files, in stripes of that size; etcd: with so many members of it; backing: servers of names, small files and intentions keep what they
    have on so many storage nodes; standbys: and each may run on one more host; one_process: of servers that share a process; xdp: so attached."""
    if (managers or 1) > 1 and not etcd:
        raise Failure(f"--managers {managers}: they share their state: --etcd")
    if etcd and one_process:
        raise Failure("--etcd: not with --one-process")
    if managers is not None:
        text = with_servers(text, "--managers", "manager", "manager", managers, FIRST_SPARE_MANAGER_LEG, MAX_MANAGERS)
    if etcd:
        text = with_etcd(text, etcd)
    if storage is not None:
        text = with_servers(text, "--storage", "storage", "store", storage, FIRST_SPARE_STORAGE_LEG, MAX_STORAGE_NODES)
    if small_files is not None:
        text = with_servers(text, "--small-files", "small-file", "small", small_files, FIRST_SPARE_SMALL_FILE_LEG, MAX_SMALL_FILE_SERVERS)
    if directories is not None:
        text = with_servers(text, "--directories", "directory", "dir", directories, FIRST_SPARE_LEG, MAX_DIRECTORIES)
    if coordinators is not None:
        text = with_servers(text, "--coordinators", "coordinator", "coord", coordinators, FIRST_SPARE_COORDINATOR_LEG, MAX_COORDINATORS)
    if policy is not None:
        text = set_volume_key(text, "name_policy", f'"{policy}"')
    if probability is not None:
        text = set_volume_key(text, "mkdir_probability", repr(float(probability)))
    if copies is not None:
        text = set_volume_key(text, "copies", str(copies))
    if stripe_unit is not None:
        text = set_volume_key(text, "stripe_unit", f'"{stripe_unit}"')
    if standbys and (not backing or one_process):
        raise Failure("--standbys: with --backing, and not with --one-process")
    if backing is not None:
        text = with_backing(text, backing, standbys)
    if ipv6:
        text = with_ipv6(text, ipv6)
    if one_process:
        xdp = xdp or "off"  # its requests lead to no other host: a program would cost time and save none
    if xdp is not None:
        text = re.sub(r"^xdp = .*$", f'xdp = "{xdp}"', text, flags=re.MULTILINE)
    return text


def in_start_order(servers):
    """Their names."""
    return [s["name"] for s in sorted(servers, key=lambda s: START_ORDER.index(s["role"]))]


class Ensemble:
    def __init__(self, instance, run_dir, bin_dir, config=None, unprivileged=False, **shape):
        """`shape`: directories, storage, coordinators, policy, probability, copies, stripe_unit, backing, standbys, one_process, xdp, as for shaped()."""
        self.instance = instance
        self.shape = shape
        self.dir = pathlib.Path(run_dir).resolve() / instance
        self.bin = pathlib.Path(bin_dir).resolve()
        self.template = config
        self.config_path = self.dir / "ensemble.toml"
        self.standby_config_path = self.dir / "standby.toml"
        self.processes_path = self.dir / "processes.json"
        self.unprivileged_path = self.dir / "unprivileged"  # is there where the last `up` was told so
        self.unprivileged = unprivileged

    # ---- configuration ----

    def prepare(self):
        """Writes this instance's ensemble.toml from the template (@RUN@ and @INSTANCE@ replaced) and its key."""
        self.dir.mkdir(parents=True, exist_ok=True)
        (self.dir / "log").mkdir(exist_ok=True)
        (self.dir / "pid").mkdir(exist_ok=True)
        template = pathlib.Path(self.template or ROOT / "deploy/local/ensemble.toml")
        text = shaped(template.read_text(), **self.shape).replace("@RUN@", str(self.dir)).replace("@INSTANCE@", self.instance)
        config = tomllib.loads(text)
        servers = config["server"]
        self.check_servers(servers)
        self.config_path.write_text(text)
        # Hosts of their own have disks of their own.
        self.standby_config_path.write_text(text.replace(f'data = "{self.dir}/data/', f'data = "{self.dir}/data/standby/'))
        etcd = {member["name"]: [member["name"]] for member in etcd_members(config)}
        standbys = {f"{server['name']}{STANDBY}": [server["name"]] for server in servers if server.get("standbys")}
        self.processes_path.write_text(json.dumps({**etcd, **self.processes_of(in_start_order(servers)), **standbys}) + "\n")
        self.unprivileged_path.unlink(missing_ok=True)
        if self.unprivileged:
            self.unprivileged_path.touch()
        key = self.dir / "ensemble.key"
        if not key.exists():
            key.touch(mode=0o600)
            key.write_text(os.urandom(32).hex() + "\n")

    def check_servers(self, servers):
        """Where there is a volume already, its servers are those that it was made with: the file's list is read when a volume is made."""
        made = any((self.dir / "data").rglob("manager.state")) or (self.dir / "data/etcd1").exists()
        if not self.config_path.exists() or not made:
            return
        names = {s["name"] for s in servers}
        made_with = {s["name"] for s in tomllib.loads(self.config_path.read_text())["server"]}
        if names != made_with:
            raise Failure(f"there is data of an ensemble of other servers ({', '.join(sorted(names ^ made_with))}): `clean` removes it")

    def processes_of(self, servers):
        """What each process serves, in the order of their start."""
        return {HOST_PROCESS: servers} if self.shape.get("one_process") else {name: [name] for name in servers}

    def load(self):
        if not self.config_path.exists():
            raise Failure(f"no ensemble '{self.instance}' here: {self.config_path} does not exist; run `up` first")
        self.config = tomllib.loads(self.config_path.read_text())
        self.servers = self.config["server"]
        self.etcd = etcd_members(self.config)
        self.processes = self.processes_of(in_start_order(self.servers))
        if self.processes_path.exists():  # of the last `up`, whatever this one was told
            self.processes = json.loads(self.processes_path.read_text())
        self.one_process = HOST_PROCESS in self.processes
        self.unprivileged = self.unprivileged_path.exists()
        virtual = self.config["proxy"]["virtual_address"]
        self.virtuals = [virtual] if isinstance(virtual, str) else virtual
        self.virtual = self.virtuals[0]
        self.virtual6 = next((each for each in self.virtuals if ":" in each), None)

    def server(self, name):
        for server in [*self.servers, *self.etcd]:
            if server["name"] == name:
                return server
        raise Failure(f"no server '{name}'; there are: {', '.join(s['name'] for s in [*self.servers, *self.etcd])}")

    def process(self, name):
        """The process which is that, or serves that server."""
        for process, servers in self.processes.items():
            if name == process or name in servers:
                return process
        raise Failure(f"no process or server '{name}'; there are: {', '.join(self.processes)}")

    def place(self, process):
        """The first server of a process, with the address that it has there."""
        server = self.server(self.processes[process][0])
        return {**server, "address": server["standbys"][0]} if process.endswith(STANDBY) else server

    # ---- namespaces ----

    def prefix(self):
        return "slice" if self.instance == "local" else f"slice-{self.instance}"

    def proxy_ns(self):
        return f"{self.prefix()}-proxy"

    def client_ns(self):
        return f"{self.prefix()}-client"

    def host_ns(self, server):
        if self.one_process or server["role"] == "proxy":
            return self.proxy_ns()
        return f"{self.prefix()}-host{self.leg_number(server)}"

    @staticmethod
    def leg_number(server):
        found = SERVER_ADDRESS.fullmatch(server["address"])
        if not found:
            raise Failure(f"server {server['name']}: address {server['address']} is not 10.77.N.2 or fd77:0:0:N::2, which the local ensemble needs")
        return int(found[1] or found[2])

    def legs(self):
        places = [*self.servers, *self.etcd, *map(self.place, self.processes)]
        return sorted({self.leg_number(s) for s in places if self.host_ns(s) != self.proxy_ns()})

    def add_leg(self, name, namespace, number):
        """A veth: `name` in the proxy's namespace with NET.1, eth0 in `namespace` with NET.2 and the default route; of IPv6 the same."""
        net = NET.format(number)
        run("ip", "netns", "add", namespace)
        run("ip", "link", "add", name, "netns", self.proxy_ns(), "type", "veth", "peer", "name", "eth0", "netns", namespace)
        self.ip(self.proxy_ns(), "addr", "add", f"{net}.1/24", "dev", name)
        self.ip(self.proxy_ns(), "link", "set", name, "up")
        self.ip(namespace, "addr", "add", f"{net}.2/24", "dev", "eth0")
        self.ip(namespace, "link", "set", "eth0", "up")
        self.ip(namespace, "link", "set", "lo", "up")
        self.ip(namespace, "route", "add", "default", "via", f"{net}.1")
        if self.virtual6:
            net6 = NET6.format(number)
            self.ip(self.proxy_ns(), "addr", "add", f"{net6}:1/64", "dev", name, "nodad")
            self.ip(namespace, "addr", "add", f"{net6}:2/64", "dev", "eth0", "nodad")
            self.ip(namespace, "route", "add", "default", "via", f"{net6}:1")
        # XDP_REDIRECT to a veth delivers only where the peer's GRO is on; without it packets vanish silently.
        run("nsenter", f"--net=/run/netns/{namespace}", "ethtool", "-K", "eth0", "gro", "on", check=False)

    def ip(self, namespace, *words):
        return run("ip", "-n", namespace, *words)

    def make_network(self):
        run("ip", "netns", "add", self.proxy_ns())
        self.ip(self.proxy_ns(), "link", "set", "lo", "up")
        for address in {*self.virtuals, *(s["address"] for s in self.servers if self.one_process)}:
            self.ip(self.proxy_ns(), "addr", "add", f"{address}/{128 if ':' in address else 32}", "dev", "lo")
        run("nsenter", f"--net=/run/netns/{self.proxy_ns()}", "sysctl", "-qw", "net.ipv4.ip_forward=1",
            "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.default.rp_filter=1", *(["net.ipv6.conf.all.forwarding=1"] if self.virtual6 else []))
        self.add_leg("client", self.client_ns(), CLIENT_NET)
        for number in self.legs():
            self.add_leg(f"host{number}", f"{self.prefix()}-host{number}", number)

    def remove_network(self):
        existing = {line.split()[0] for line in run("ip", "netns", "list").stdout.splitlines() if line.strip()}
        mine = [ns for ns in existing if ns in (self.proxy_ns(), self.client_ns())
                or (ns.startswith(f"{self.prefix()}-host") and ns.removeprefix(f"{self.prefix()}-host").isdigit())]
        for namespace in sorted(mine):
            run("ip", "netns", "del", namespace, check=False)

    # ---- processes ----

    def pid(self, name):
        """The pid of a process that this program started and that still is that process, else None."""
        path = self.dir / "pid" / name
        try:
            pid, started = path.read_text().split()
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, ValueError, IndexError):
            return None
        # A process whose first thread alone is dead still has its files, and so the lock of its data directory.
        dead = stat[0] == "Z" and int(stat[17]) <= 1
        if dead or stat[19] != started:
            return None
        return int(pid)

    def start(self, name, crash_at=None):
        """crash_at: the crash point where it is to kill itself, as SLICE_CRASH_AT has it (docs/operations.md)."""
        first = self.place(name)
        if self.pid(name) is not None:
            raise Failure(f"{name} runs already")
        if first["role"] == "etcd":
            words = self.etcd_command(first)
        else:
            program = self.bin / (HOST_PROGRAM if self.one_process else PROGRAMS[first["role"]])
            if not program.exists():
                raise Failure(f"{program} does not exist: build first")
            config = self.standby_config_path if name.endswith(STANDBY) else self.config_path
            words = [*(self.confinement(program) if self.unprivileged else []), str(program), "--config", str(config), "--name", *self.processes[name]]
        log = open(self.dir / "log" / f"{name}.log", "ab")
        process = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{self.host_ns(first)}", *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, **({"SLICE_CRASH_AT": crash_at} if crash_at else {})})
        log.close()
        # nsenter, and confine.py, replace themselves by the program: the pid is the program's.
        started = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
        (self.dir / "pid" / name).write_text(f"{process.pid} {started}\n")
        self.children = getattr(self, "children", {})
        self.children[name] = process

    def etcd_command(self, member):
        """A member of the managers' etcd: with the times of docs/operations.md, and with what would be forgotten taken away now and then."""
        program = shutil.which("etcd")
        if program is None:
            raise Failure("there is no etcd here: Debian's etcd-server has it")

        def url(of, port):
            return f"http://{of['address']}:{port}"
        peers = ",".join(f"{each['name']}={url(each, ETCD_PEER_PORT)}" for each in self.etcd)
        return [program, "--name", member["name"], "--data-dir", str(self.dir / "data" / member["name"]), "--logger", "zap", "--log-outputs", "stderr",
                "--listen-client-urls", url(member, ETCD_PORT), "--advertise-client-urls", url(member, ETCD_PORT),
                "--listen-peer-urls", url(member, ETCD_PEER_PORT), "--initial-advertise-peer-urls", url(member, ETCD_PEER_PORT),
                "--initial-cluster", peers, "--initial-cluster-token", self.instance, "--heartbeat-interval", "50", "--election-timeout", "500",
                "--pre-vote", "--auto-compaction-mode", "revision", "--auto-compaction-retention", "1000"]

    def confinement(self, program):
        """The words before a program's that confine it as its unit does, when that unit's preparations are done here."""
        unit = UNITS / f"{program.name}@.service"
        user, folder = str(UNPRIVILEGED), self.config["proxy"].get("bpf_folder", "/sys/fs/bpf/slice")
        for command in confine.preparations(unit):
            run(*(word.replace("/sys/fs/bpf/slice", folder).replace("slice:", f"{user}:{user}") for word in command), check=False)
        run("chown", "-R", f"{user}:{user}", self.dir)
        return [sys.executable, ROOT / "deploy/local/confine.py", unit, user]

    def end(self, name, number, patience=10.0):
        pid = self.pid(name)
        if pid is None:
            return
        os.kill(pid, number)
        deadline = time.monotonic() + patience
        while self.pid(name) is not None and time.monotonic() < deadline:
            child = getattr(self, "children", {}).get(name)
            if child is not None:
                child.poll()
            time.sleep(0.02)
        if self.pid(name) is not None and number != signal.SIGKILL:
            print(f"{name} does not stop within {patience:.0f} s: killed", file=sys.stderr)
            self.end(name, signal.SIGKILL)

    def status(self):
        """Each process's pid, in the order of their start."""
        return {name: self.pid(name) for name in self.processes}

    def slicectl(self, *words, check=True):
        return run("nsenter", f"--net=/run/netns/{self.proxy_ns()}", self.bin / "slicectl", "--config", self.config_path,
                   *words, check=check)

    def wait_serving(self, patience=30.0):
        """Until the manager says that every process serves."""
        deadline = time.monotonic() + patience
        said = ""
        while time.monotonic() < deadline:
            gone = [name for name, pid in self.status().items() if pid is None]
            if gone:
                raise Failure(f"ended at start: {', '.join(gone)}\n" + self.log_tail(gone[0]))
            done = self.slicectl("status", "--json", check=False)
            said = done.stderr.strip()
            if done.returncode in (0, UNWELL) and json.loads(done.stdout)["manager_answers"]:
                members = json.loads(done.stdout)["servers"]
                if all(m["alive"] and m["state"].startswith("serving") for m in members):
                    return
                said = ", ".join(f"{m['name']}: {m['state'] if m['alive'] else 'silent'}" for m in members)
            time.sleep(0.1)
        raise Failure(f"not all serve after {patience:.0f} s: {said}")

    def log_tail(self, name, lines=15):
        path = self.dir / "log" / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    # ---- the whole ----

    def up(self, patience=None):
        """patience: seconds until all serve, where it is not the usual."""
        if os.geteuid() != 0:
            raise Failure("making network namespaces needs root: run with sudo")
        if self.config_path.exists():  # of the last `up`, which what runs was started with
            self.load()
            running = [name for name, pid in self.status().items() if pid is not None]
            if len(running) == len(self.processes):
                print("ensemble: is up already, as and with the programs that it was started with; `down` first for others")
                return
            if running:
                raise Failure(f"up in part: {', '.join(running)} run; `down` first")
        self.prepare()
        self.load()
        self.remove_network()
        if run("mountpoint", "-q", "/sys/fs/bpf", check=False).returncode != 0:
            run("mount", "-t", "bpf", "bpf", "/sys/fs/bpf", check=False)
        try:
            self.make_network()
            (self.dir / "data").mkdir(exist_ok=True)
            for name in self.processes:
                self.start(name)
            self.wait_serving() if patience is None else self.wait_serving(patience)
        except BaseException:
            self.down()
            raise

    def down(self):
        self.load()
        for name in reversed(self.processes):
            self.end(name, signal.SIGTERM)
        self.remove_network()
        folder = pathlib.Path(self.config["proxy"].get("bpf_folder", "/sys/fs/bpf/slice"))
        if folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)

    def namespaces(self):
        return {"client": self.client_ns(), "proxy": self.proxy_ns(), "virtual": self.virtual, "virtual6": self.virtual6,
                "config": str(self.config_path), "pids": self.status(),
                "hosts": {s["name"]: self.host_ns(s) for s in [*self.servers, *self.etcd]},
                "addresses": {s["name"]: s["address"] for s in [*self.servers, *self.etcd]},
                "processes": {s["name"]: self.process(s["name"]) for s in self.servers}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["up", "down", "status", "kill", "stop", "start", "restart", "namespaces", "clean"])
    parser.add_argument("name", nargs="?", help="a server's name, for kill, stop, start, restart")
    parser.add_argument("--instance", default="local")
    parser.add_argument("--run-dir", default=ROOT / "run")
    parser.add_argument("--bin", default=ROOT / "build/release/bin")
    parser.add_argument("--config", help="template of ensemble.toml (default deploy/local/ensemble.toml)")
    parser.add_argument("--directories", type=int, help="directory servers (default: as many as the template has)")
    parser.add_argument("--storage", type=int, help="storage nodes (default: as many as the template has)")
    parser.add_argument("--small-files", type=int, help="small-file servers (default: as many as the template has)")
    parser.add_argument("--coordinators", type=int, help="coordinators (default: as many as the template has)")
    parser.add_argument("--managers", type=int, help="managers (default: as many as the template has); several share their state: --etcd")
    parser.add_argument("--etcd", type=int, nargs="?", const=3, metavar="MEMBERS", help="the managers' state is in an etcd of so many members (3)")
    parser.add_argument("--policy", choices=["mkdir-switching", "name-hashing"], help="for names (default: the template's)")
    parser.add_argument("--probability", type=float, help="mkdir switching: the share of new directories that go to another site")
    parser.add_argument("--copies", type=int, help="on how many storage nodes each byte of a new file is (default: the template's, 1)")
    parser.add_argument("--stripe-unit", metavar="SIZE", help="of new files' bytes on one storage node, as 64KiB (default: the template's, 256KiB)")
    parser.add_argument("--backing", type=int, metavar="COPIES", help="directory servers, small-file servers and coordinators keep what they have on "
                        "so many storage nodes each")
    parser.add_argument("--standbys", action="store_true", help="with --backing: each of them has a process on a second host, which stands by for it")
    parser.add_argument("--xdp", choices=["native", "generic", "off"], help="how the XDP program is attached (default: the template's; off with --one-process)")
    parser.add_argument("--ipv6", nargs="?", const="clients", choices=["clients", "all"], help="the volume has a second address, of IPv6; all: its servers have "
                        "none of IPv4")
    parser.add_argument("--one-process", action="store_true", help="all servers in one slice-hostd")
    parser.add_argument("--unprivileged", action="store_true", help="each process confined as its unit in deploy/systemd says")
    parser.add_argument("--patience", type=float, help="with up: seconds until all must serve (default: 30)")
    parser.add_argument("--crash-at", metavar="POINT[:N]", help="with start, restart: the crash point where the process is to kill itself")
    parser.add_argument("--kill", action="store_true", help="with restart: by SIGKILL")
    parser.add_argument("--check-arguments", action="store_true", help="do nothing but refuse wrong words")
    given = parser.parse_args()
    if given.check_arguments:
        return 0
    ensemble = Ensemble(given.instance, given.run_dir, given.bin, given.config, directories=given.directories, storage=given.storage,
                        small_files=given.small_files, coordinators=given.coordinators, managers=given.managers, etcd=given.etcd,
                        policy=given.policy, probability=given.probability, copies=given.copies, stripe_unit=given.stripe_unit, backing=given.backing,
                        standbys=given.standbys, ipv6=given.ipv6, one_process=given.one_process, xdp=given.xdp, unprivileged=given.unprivileged)
    try:
        if given.verb == "up":
            ensemble.up(given.patience)
            return 0
        ensemble.load()
        if given.verb in ("kill", "stop", "start", "restart"):
            if given.name is None:
                parser.error(f"{given.verb} takes a server's name")
            process = ensemble.process(given.name)
            if given.verb != "start":
                ensemble.end(process, signal.SIGKILL if given.verb == "kill" or given.kill else signal.SIGTERM)
            if given.verb in ("start", "restart"):
                ensemble.start(process, given.crash_at)
        elif given.verb == "status":
            for name, pid in ensemble.status().items():
                print(f"{name:12} {'pid ' + str(pid) if pid else 'not running'}")
            return 0 if all(ensemble.status().values()) else 1
        elif given.verb == "namespaces":
            print(json.dumps(ensemble.namespaces(), indent=2))
        else:
            ensemble.down()
            if given.verb == "clean":
                shutil.rmtree(ensemble.dir)
        return 0
    except Failure as failure:
        print(f"ensemble: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
