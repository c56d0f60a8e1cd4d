"""The suite `join`: of docs/install.md what the test `packages` leaves out. An ensemble that `slicectl init` plans, with session keys, certificates
(docs/operations.md) and the document's own firewall on each host; its processes are confined as their units say. A fourth host joins with what it was
brought. Who is no host reaches no server, and who has the key alone does not join."""

import contextlib
import errno
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

import targets
import uml
from attacks import network, rpc

DOCUMENT = targets.ROOT / "docs/install.md"
FIREWALL = re.compile(r"^    (nft add .*)$", re.M)
LASTING = re.compile(r"^    (nft list .*|systemctl enable .*)$", re.M)
NFTABLES_CONF = "#!/usr/sbin/nft -f\n\nflush ruleset\n"  # Debian's, without its empty chains
STARTS = re.compile(r"^ExecStart=(.*)$", re.M)  # of a unit
# A namespace of mounts, where what a line in $1 finds and leaves in /etc is in the folder $0.
OWN_ETC = 'mount --bind "$0/nftables.conf" /etc/nftables.conf && mount --bind "$0/system" /etc/systemd/system && eval "$1"'
NETWORK, BITS, VIRTUAL = "10.77.0.{}", 16, "10.77.0.1"
BEGUN, NEWCOMER = {"alpha": 11, "beta": 12, "gamma": 13}, {"delta": 14}
CLIENT = 50
USER = 64738  # of the processes, in place of slice: as in deploy/local/ensemble.py
SERVER_PORTS = range(2049, 2064)
SECRETS = ["ensemble.key", "session.key", "session-next.key"]  # the same on every host
TLS = ["host.crt", "host.key", "authority.crt", "revoked.pem"]
IN_FORCE = """
[network]
session_keys = ["session.key", "session-next.key"]
tls_certificate = "host.crt"
tls_key = "host.key"
tls_authority = "authority.crt"
tls_revoked = "revoked.pem"
"""
SERVE_SECONDS, MOVE_SECONDS, PROBE_SECONDS = 30, 60, 1.0
LEAST_SITES = 200  # of 1024, that a fourth node gets


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} join {what}{'' if ok else f': {got}'}", flush=True)
    return bool(ok)


def run(*command, check=True):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr or done.stdout}")
    return done


def firewall():
    """The document's lines: for each host at the beginning, for its restarts, and for one more host."""
    begun, _, more = DOCUMENT.read_text().partition("### One more host")
    lines = FIREWALL.findall(begun), LASTING.findall(begun), FIREWALL.findall(more)
    if not all(lines):
        raise SystemExit(f"{DOCUMENT} has no lines of a firewall")
    return lines


class Hosts:
    """Namespaces at a bridge, with a folder each; processes that end with it."""

    def __init__(self, instance, folder, bin_dir):
        self.prefix, self.folder, self.bin, self.processes = f"slice-{instance}-join", folder, pathlib.Path(bin_dir), {}

    def __enter__(self):
        self.remove_network()
        self.make_network()
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
        self.remove_network()

    def netns(self, name):
        return f"{self.prefix}-{name}"

    @staticmethod
    def ends():
        return {**BEGUN, **NEWCOMER, "client": CLIENT}

    def make_network(self):
        bridge = self.netns("bridge")
        run("ip", "netns", "add", bridge)
        run("ip", "-n", bridge, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", bridge, "link", "set", "br0", "up")
        for name, number in self.ends().items():
            run("ip", "netns", "add", self.netns(name))
            run("ip", "-n", bridge, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", self.netns(name))
            run("ip", "-n", bridge, "link", "set", name, "master", "br0", "up")
            run("ip", "-n", self.netns(name), "address", "add", f"{NETWORK.format(number)}/{BITS}", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", self.netns(name), "link", "set", device, "up")
        run("ip", "-n", self.netns("alpha"), "address", "add", f"{VIRTUAL}/32", "dev", "lo")

    def remove_network(self):
        for name in ["bridge", *self.ends()]:
            run("ip", "netns", "del", self.netns(name), check=False)

    def on(self, host, *command, check=True):
        return run(*uml.in_netns(self.netns(host), *map(str, command)), check=check)

    def own_etc(self, host):
        return self.folder / f"{host}.etc"

    def on_own_etc(self, host, line):
        self.on(host, "env", "SYSTEMD_OFFLINE=1", "unshare", "--mount", "sh", "-c", OWN_ETC, self.own_etc(host), line)

    def etc(self, host):
        return self.folder / host

    def slicectl(self, host, *words, check=True):
        return self.on(host, self.bin / "slicectl", "--config", self.etc(host) / "ensemble.toml", *words, check=check)

    def start(self, host, program, *servers):
        """As the program's unit has it."""
        unit = targets.ROOT / f"deploy/systemd/{program}@.service"
        command = [sys.executable, targets.ROOT / "deploy/local/confine.py", unit, USER, self.bin / program,
                   "--config", self.etc(host) / "ensemble.toml", "--name", *servers]
        with open(self.folder / f"{host}.log", "ab") as log:
            self.processes[host] = subprocess.Popen(uml.in_netns(self.netns(host), *map(str, command)), stdin=subprocess.DEVNULL, stdout=log,
                                                    stderr=log, start_new_session=True)

    def logs(self):
        return "".join(f"---- {host}\n{(self.folder / f'{host}.log').read_text(errors='replace')[-1500:]}" for host in self.processes)

    def all_serve(self, what, count):
        until, states = time.monotonic() + SERVE_SECONDS, []
        while time.monotonic() < until:
            said = self.slicectl("alpha", "--json", "status", check=False).stdout
            with contextlib.suppress(json.JSONDecodeError):
                states = [each["state"] for each in json.loads(said)["servers"] if each["alive"]]
                if len(states) == count and all(state.startswith("serving") for state in states):
                    return say(True, what)
            time.sleep(0.2)
        return say(False, what, f"{states}\n{self.logs()}")


class Birth:
    """The operator's part, up to where processes start."""

    def __init__(self, hosts):
        self.hosts, self.made, self.authority = hosts, hosts.folder / "made", hosts.folder / "authority"
        named = ",".join(f"{name}={NETWORK.format(number)}" for name, number in BEGUN.items())
        run(hosts.bin / "slicectl", "init", "--hosts", named, "--virtual", VIRTUAL, "--clients", f"{NETWORK.format(0)}/{BITS}", "--output", self.made)
        text = (self.made / "ensemble.toml").read_text().replace("/var/lib/slice", f"{hosts.folder}/data")
        (self.made / "ensemble.toml").write_text(f'data_folder = "{hosts.folder}/data"\n{text}{IN_FORCE}')
        for name, secret in (("session.key", os.urandom(32)), ("session-next.key", b"")):
            (self.made / name).touch(mode=0o600)
            (self.made / name).write_bytes(secret)
        self.certificates("new")
        data = hosts.folder / "data"
        data.mkdir()
        os.chown(data, USER, USER)

    def certificates(self, command, *words):
        run(targets.ROOT / "deploy/certificates.sh", command, self.authority, *words)

    def bring(self, host, number, files=("ensemble.toml", *SECRETS, *TLS)):
        """As scp -p brings files that root has there: they are root's here."""
        to = self.hosts.etc(host)
        to.mkdir(mode=0o755)
        if not (self.authority / f"{host}.crt").exists():
            self.certificates("issue", host, NETWORK.format(number))
        for name in files:
            own = {"host.crt": f"{host}.crt", "host.key": f"{host}.key"}
            shutil.copy2(self.authority / own.get(name, name) if name in TLS else self.made / name, to / name)


def begin(hosts, birth):
    for name, number in BEGUN.items():
        birth.bring(name, number)
        for path in hosts.etc(name).iterdir():
            os.chown(path, USER, USER)
    hosts.start("alpha", "slice-hostd", "manager1", "dir1", "small1", "coord1", "store1", "proxy1")
    hosts.start("beta", "slice-stored", "store2")
    hosts.start("gamma", "slice-stored", "store3")
    return hosts.all_serve("three hosts of slicectl init serve, with session keys and certificates", 8)


def reachable(hosts):
    """Of all ports of servers those that a client gets a connection to, and those that answer a NULL call over UDP."""
    found, waiting = set(), {}
    for host, number in BEGUN.items():
        for port in SERVER_PORTS:
            for kind, name in ((socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")):
                one = network.open_socket(hosts.netns("client"), kind)
                one.setblocking(False)
                code = one.connect_ex((NETWORK.format(number), port))
                if kind == socket.SOCK_DGRAM:
                    one.send(rpc.nfs_call(0, b""))
                elif code not in (0, errno.EINPROGRESS):
                    raise OSError(code, os.strerror(code))
                waiting[one] = f"{host}:{port}/{name}"
    until = time.monotonic() + PROBE_SECONDS
    while waiting and time.monotonic() < until:
        streams = [one for one in waiting if one.type == socket.SOCK_STREAM]
        readable, writable, _ = select.select([one for one in waiting if one not in streams], streams, [], until - time.monotonic())
        for one in readable + writable:
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                found.add(waiting[one])
            del waiting[one]
            one.close()
    for one in waiting:
        one.close()
    return found


def file_goes_and_comes(hosts, name, what):
    """By libnfs's tool, which asks PORTMAP and MOUNT first."""
    there, back = hosts.folder / name, hosts.folder / f"{name}.back"
    there.write_bytes(random.Random(name).randbytes(500_000))
    for source, target in ((there, f"nfs://{VIRTUAL}//{name}?version=3"), (f"nfs://{VIRTUAL}//{name}?version=3", back)):
        done = hosts.on("client", "timeout", "30", "nfs-cp", source, target, check=False)
        if done.returncode != 0:
            return say(False, what, done.stderr or done.stdout)
    return say(there.read_bytes() == back.read_bytes(), what)


def shut(hosts):
    open_before = reachable(hosts)
    expected = {f"alpha:{port}/{kind}" for port in range(2049, 2055) for kind in ("tcp", "udp")}
    expected |= {f"{host}:2054/{kind}" for host in ("beta", "gamma") for kind in ("tcp", "udp")}
    ok = say(open_before == expected, "without a firewall a client reaches each server", sorted(open_before ^ expected))
    lines, _, _ = firewall()
    for host in BEGUN:
        for line in lines:
            hosts.on(host, "sh", "-c", line)
    ok &= say(not (still := reachable(hosts)), "with the document's a client reaches none", sorted(still))
    ok &= file_goes_and_comes(hosts, "shut", "and works")
    ok &= hosts.all_serve("and servers have one another", 8)
    return ok & restarted(hosts, expected)


def restarted(hosts, expected):
    """As hosts are that know nothing but what is in /etc: what is enabled there is started."""
    _, lasting, _ = firewall()
    for host in BEGUN:
        (hosts.own_etc(host) / "system").mkdir(parents=True)
        (hosts.own_etc(host) / "nftables.conf").write_text(NFTABLES_CONF)
        for line in lasting:
            hosts.on_own_etc(host, line)
        hosts.on(host, "nft", "flush", "ruleset")
    ok = say(not (missing := expected - reachable(hosts)), "nothing is left of it in a kernel that was started anew", sorted(missing))
    for host in BEGUN:
        for unit in (hosts.own_etc(host) / "system").glob("*.wants/*"):
            hosts.on_own_etc(host, STARTS.search(unit.read_text())[1])
    ok &= say(not (still := reachable(hosts)), "and with what the document has enabled a client reaches none again", sorted(still))
    return ok & hosts.all_serve("servers have one another again", 8)


def let_in(hosts):
    """The firewalls know the fourth host from now on, and it has one."""
    begun, _, more = firewall()
    for host, lines in [*((name, more) for name in BEGUN), ("delta", begun + more)]:
        for line in lines:
            hosts.on(host, "sh", "-c", line)


def join(hosts):
    return hosts.slicectl("delta", "--timeout", "3", "join", "--manager", NETWORK.format(BEGUN["alpha"]), "--host", "delta", "--no-start", check=False)


def key_alone(hosts, birth):
    """What is enough where there are neither session keys nor certificates."""
    birth.bring("delta", NEWCOMER["delta"], ["ensemble.key"])
    done = join(hosts)
    left = sorted(path.name for path in hosts.etc("delta").iterdir())
    shutil.rmtree(hosts.etc("delta"))
    ok = say(done.returncode == 1 and "session_keys" in done.stderr, "with the ensemble's key alone it is refused, and told what else it takes", done.stderr)
    return ok & say(left == ["ensemble.key"], "and has nothing", left)


def without(hosts, birth, name):
    """One file was forgotten: that is told before anybody is a member."""
    birth.bring("delta", NEWCOMER["delta"])
    (hosts.etc("delta") / name).unlink()
    done = join(hosts)
    shutil.rmtree(hosts.etc("delta"))
    members = json.loads(hosts.slicectl("alpha", "--json", "servers").stdout)["servers"]
    return say(done.returncode != 0 and name in done.stderr and len(members) == 8, f"without {name} it is refused, and told", done.stderr)


def joined(hosts, birth):
    birth.bring("delta", NEWCOMER["delta"])
    before = (hosts.etc("delta") / "ensemble.toml").read_bytes()
    done = join(hosts)
    if not say(done.returncode == 0 and "store4 is a member" in done.stdout, "a fourth host joins", done.stderr):
        return False
    ok = say((hosts.etc("delta") / "ensemble.toml").read_bytes() == before, "and its file is left as it was")
    commands = [line for line in done.stdout.splitlines() if line.startswith(("chown ", "install -d -o "))]  # the others are systemd's
    for line in commands:
        run("sh", "-euc", line.replace("slice: ", f"{USER}:{USER} ").replace("-o slice -g slice", f"-o {USER} -g {USER}"))
    hosts.start("delta", "slice-stored", "store4")
    ok &= hosts.all_serve("its server serves", 9)
    hosts.slicectl("delta", "rebalance")
    hosts.slicectl("delta", "--timeout", MOVE_SECONDS, "moves", "--watch")
    servers = json.loads(hosts.slicectl("delta", "--json", "servers").stdout)["servers"]
    sites = next(each["sites"] for each in servers if each["name"] == "store4")
    ok &= say(sites >= LEAST_SITES, f"it gets its share, {sites} of 1024 sites", servers)
    return ok & file_goes_and_comes(hosts, "joined", "a client works as before")


def joining(ensembles, options):
    ensembles.folder.chmod(0o711)
    folder = ensembles.folder / "join"
    folder.mkdir(mode=0o711)
    with Hosts(ensembles.instance, folder, options.programs.parent / "bin") as hosts:
        birth = Birth(hosts)
        ok = begin(hosts, birth)
        ok &= file_goes_and_comes(hosts, "begun", "a client works")
        ok &= shut(hosts)
        let_in(hosts)
        ok &= key_alone(hosts, birth)
        ok &= without(hosts, birth, "session.key")
        ok &= without(hosts, birth, "host.key")
        return ok & joined(hosts, birth)
