"""The suite `spread`: three proxies at one virtual address that all serve over TCP, each a part of the clients, and a kernel client of each
that works all the time. A proxy comes, dies, stops, stands still, is cut off; the one that has the address does; the manager dies. Only
clients of a proxy that is gone may notice more than a new connection, no client may see an error or a wrong byte, and in the end each
client's connection is at the proxy that has it."""

import contextlib
import json
import pathlib
import signal
import sys
import tempfile
import time

import address
import targets
import uml

PROXIES = {"proxy1": 11, "proxy2": 12, "proxy3": 13}
# Who has the address at the loopback interface must not tell others of it (docs/proxy.md).
SETTINGS = ("net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
HOSTS = range(201, 250)  # of clients, to choose from
START_SECONDS, SETTLE_SECONDS = 40, 30
LONGEST, LONGEST_PLANNED, UNNOTICED = 5.0, 1.5, 1.0  # seconds


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} spread {what}{'' if ok or not got else f': {got}'}", flush=True)
    return bool(ok)


class Shared(address.Proxies):
    """Proxies that share the clients."""

    def sharing(self):
        """What part of the clients each proxy has, and which proxy each of HOSTS."""
        hosts = [address.CLIENTS.format(host) for host in HOSTS]
        with contextlib.suppress(json.JSONDecodeError):
            said = json.loads(self.slicectl("--json", "proxy", "clients", *hosts).stdout)
            return {each["name"]: each["part"] for each in said["proxies"]}, said["clients"]
        return {}, {}

    def shared_by(self, *names):
        return set(self.sharing()[0]) == set(names)

    def connected(self, client):
        """Proxies whose hosts have a connection of a client."""
        def has(name):
            found = self.on(name, "ss", "-Htn", "state", "established", "src", f"{address.VIRTUAL}:2049", "dst", client).stdout
            return bool(found.strip())
        return [name for name in self.proxies if has(name)]

    def as_client_of(self, name):
        """From now on this machine's own client's connections come from an address that this proxy has."""
        chosen = next(client for client, owner in self.sharing()[1].items() if owner == name)
        self.on("client", "ip", "address", "replace", f"{chosen}/24", "dev", "eth0")
        self.on("client", "ip", "route", "replace", f"{address.VIRTUAL}/32", "dev", "eth0", "src", chosen)

    def sent_on(self, name):
        return self.metric(name, "xdp_outcomes_total{outcome=\"TCP_SPREAD\"}")


class Client:
    """A kernel client whose part a certain proxy has, at work."""

    def __init__(self, pair, host, control):
        command = ["python3", str(uml.ROOT / "tests/cluster/guest/address_load.py"), ".", "--until", "/run/slice/stop/now", "--name", str(host)]
        self.address = address.CLIENTS.format(host)
        self.guest = uml.Guest(pair.client, address.VIRTUAL, command, options="actimeo=0", timeout=900, memory="192M", shares={"stop": control}, host=host)
        self.trial, self.since = address.Trial(pair, self.guest), 0

    def longest(self):
        """What it stood still since the event began, in seconds."""
        return max((max(took for took, _ in window.values()) for window in self.trial.windows(self.since)), default=0.0)


class Trial:
    def __init__(self, pair, clients):
        self.pair, self.clients, self.ok = pair, clients, True

    def owner(self, client):
        return self.pair.sharing()[1].get(client.address)

    def in_order(self, names):
        """These share the clients, each client's connection is where it belongs and nowhere else, and one has the address."""
        parts, owners = self.pair.sharing()
        return (set(parts) == set(names) and len([name for name in self.pair.having() if name in names]) == 1
                and all([name for name in self.pair.connected(client.address) if name in names] == [owners[client.address]] for client in self.clients))

    def begin(self):
        """The name of the one that has the address, the others, and which client each has, when all share."""
        if not self.pair.wait(lambda: self.in_order(PROXIES), SETTLE_SECONDS, pause=0.3):
            self.ok &= say(False, "all share the clients", self.state())
        self.look_from_now()
        holder = self.pair.holder()
        return holder, [name for name in PROXIES if name != holder], {self.owner(client): client for client in self.clients}

    def look_from_now(self):
        """What clients stood still before is of no account any more."""
        for client in self.clients:
            client.since = len(client.guest.text)

    def state(self):
        connected = {client.address: self.pair.connected(client.address) for client in self.clients}
        return "\n".join([str(self.pair.sharing()[0]), str(connected), str(self.pair.having()), str(self.pair.details()),
                          *(self.pair.log(name) for name in (*PROXIES, "manager1"))])

    def wrong(self):
        return [line for client in self.clients for line in client.guest.text.splitlines() if "WRONG" in line]

    def settled(self, names):
        """These share the clients, who work as before; or something is wrong. False: it takes too long."""
        return self.pair.wait(lambda: (all(client.trial.is_calm(client.since) for client in self.clients) and self.in_order(names)) or self.wrong(),
                              SETTLE_SECONDS, pause=0.3)

    def judge(self, what, names, touched, limit):
        """These share the clients in the end. touched: clients that may notice it, up to limit seconds."""
        calm = self.settled(names)
        times = {client.address: client.longest() for client in self.clients}
        good = calm and not self.wrong() and all(times[client.address] < (limit if client in touched else UNNOTICED) for client in self.clients)
        told = ", ".join(f"{client.longest():.2f} s{'' if client in touched else ' (another proxy has it)'}" for client in self.clients)
        say(good, f"{what}: the longest {told}; less than {limit} s wanted, {UNNOTICED} s of others")
        if not good:
            print("\n".join([*self.wrong()[:5], self.state()]), flush=True)
        self.ok &= bool(good)

    def back(self, name, touched=()):
        """It comes again, and takes its clients; the others' notice nothing."""
        self.look_from_now()
        self.pair.start(name)
        self.judge(f"{name} comes again", PROXIES, touched or self.clients, LONGEST_PLANNED)

    # --- events ---

    def sharer_killed(self):
        _, others, having = self.begin()
        self.pair.end(others[0], signal.SIGKILL)
        self.judge("a proxy that has not the address is killed", set(PROXIES) - {others[0]}, [having[others[0]]], LONGEST)
        self.back(others[0], [having[others[0]]])

    def sharer_restarted(self):
        _, others, having = self.begin()
        self.pair.end(others[0], signal.SIGKILL)
        self.pair.start(others[0])
        self.judge("the same, started again at once", PROXIES, [having[others[0]]], LONGEST_PLANNED)

    def sharer_stopped(self):
        _, others, having = self.begin()
        self.pair.end(others[1], signal.SIGTERM)
        self.judge("a proxy that has not the address stops", set(PROXIES) - {others[1]}, [having[others[1]]], LONGEST_PLANNED)
        self.back(others[1], [having[others[1]]])

    def sharer_stood_still(self):
        _, others, having = self.begin()
        self.pair.signal(others[0], signal.SIGSTOP)
        time.sleep(10)
        self.pair.signal(others[0], signal.SIGCONT)
        self.judge("a proxy that has not the address stands still for 10 s", PROXIES, [having[others[0]]], LONGEST)

    def sharer_silent(self):
        """Nothing passes, and its host sees no difference."""
        _, others, having = self.begin()
        self.pair.set_ports(others[1], "nomaster")
        self.judge("nothing passes to a proxy that has not the address", set(PROXIES) - {others[1]}, [having[others[1]]], LONGEST)
        self.look_from_now()
        self.pair.plug_in(others[1])
        self.judge("it is there again", PROXIES, [having[others[1]]], LONGEST_PLANNED)

    def holder_killed(self):
        """Its process alone: its host's kernel goes on for others, until another has the address."""
        holder, _, _ = self.begin()
        self.pair.end(holder, signal.SIGKILL)
        self.judge("the proxy that has the address is killed", set(PROXIES) - {holder}, self.clients, LONGEST)
        self.back(holder)

    def holder_silent(self):
        holder, _, _ = self.begin()
        self.pair.set_ports(holder, "nomaster")
        self.judge("nothing passes to the proxy that has the address", set(PROXIES) - {holder}, self.clients, LONGEST)
        self.look_from_now()
        self.pair.plug_in(holder)
        self.judge("it is there again", PROXIES, self.clients, LONGEST_PLANNED)

    def holder_stopped(self):
        holder, _, _ = self.begin()
        self.pair.end(holder, signal.SIGTERM)
        self.judge("the proxy that has the address stops", set(PROXIES) - {holder}, self.clients, LONGEST_PLANNED)
        self.back(holder)

    def two_killed(self):
        holder, others, _ = self.begin()
        for name in (holder, others[0]):
            self.pair.signal(name, signal.SIGKILL)
        for name in (holder, others[0]):
            self.pair.processes[name].wait(15)
        self.judge("that one and another are killed together", {others[1]}, self.clients, LONGEST)
        for name in (holder, others[0]):
            self.pair.start(name)
        self.begin()

    def moved(self):
        _, others, _ = self.begin()
        said = self.pair.slicectl("proxy", "hold", others[0])
        self.ok &= say(said.returncode == 0, "slicectl proxy hold", said.stdout + said.stderr)
        self.judge("the address is moved by slicectl", PROXIES, self.clients, UNNOTICED)

    def manager_dead(self):
        self.begin()
        self.pair.end("manager1", signal.SIGKILL)
        time.sleep(10)
        self.pair.start("manager1")
        self.judge("the manager is dead for 10 s", PROXIES, [], LONGEST)

    def astray(self):
        """A host that sends its frames to another proxy than the one that has the address is served by the one that has it."""
        holder, others, having = self.begin()
        wrong = next(name for name in others if having.get(name) is not self.clients[0] and self.owner(self.clients[0]) != name)
        hardware = json.loads(self.pair.on(wrong, "ip", "-j", "link", "show", "dev", "eth0").stdout)[0]["address"]
        self.pair.on("client", "ip", "neigh", "replace", address.VIRTUAL, "lladdr", hardware, "dev", "eth0", "nud", "permanent")
        time.sleep(3)
        self.judge(f"frames for the address are sent to {wrong}, while {holder} has it", PROXIES, self.clients, LONGEST)
        self.pair.on("client", "ip", "neigh", "del", address.VIRTUAL, "dev", "eth0")
        self.judge("and to the right one again", PROXIES, self.clients, LONGEST)

    def arp(self):
        """Who asks for the address hears of one host, though three have it."""
        holder = self.pair.holder()
        hardware = json.loads(self.pair.on(holder, "ip", "-j", "link", "show", "dev", "eth0").stdout)[0]["address"]
        said = self.pair.on("client", sys.executable, "-c", ARP_QUESTION, address.VIRTUAL, address.CLIENTS.format(2), check=False)
        self.ok &= say(said.stdout.split() == [hardware], "one host answers for the address", f"{said.stdout} {said.stderr}; {holder} has {hardware}")


ARP_QUESTION = """
import fcntl, socket, struct, sys, time
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
out.bind(("eth0", 0))
own = fcntl.ioctl(out.fileno(), 0x8927, struct.pack("256s", b"eth0"))[18:24]
target, me = (socket.inet_aton(word) for word in sys.argv[1:3])
out.send(b"\\xff" * 6 + own + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + own + me + bytes(6) + target)
out.settimeout(0.1)
heard, end = set(), time.monotonic() + 1
while time.monotonic() < end:
    try:
        frame = out.recv(100)
    except TimeoutError:
        continue
    if frame[20:22] == b"\\x00\\x02" and frame[28:32] == target:
        heard.add(frame[22:28].hex(":"))
print(*sorted(heard))
"""

EVENTS = {"arp": Trial.arp, "sharer-killed": Trial.sharer_killed, "sharer-restarted": Trial.sharer_restarted, "sharer-stopped": Trial.sharer_stopped,
          "sharer-stood-still": Trial.sharer_stood_still, "sharer-silent": Trial.sharer_silent, "holder-killed": Trial.holder_killed,
          "holder-silent": Trial.holder_silent, "holder-stopped": Trial.holder_stopped, "two-killed": Trial.two_killed, "moved": Trial.moved,
          "manager-dead": Trial.manager_dead, "astray": Trial.astray}


def clients_of_each(pair, control):
    """A client of each proxy."""
    _, owners = pair.sharing()
    chosen = {}
    for client, owner in owners.items():
        chosen.setdefault(owner, int(client.rsplit(".", 1)[1]))
    return [Client(pair, chosen[name], control) for name in pair.proxies]


def spread(target, options):
    events = options.only.split(",") if options.only else list(EVENTS)
    with tempfile.TemporaryDirectory(prefix="slice-spread-", dir="/dev/shm") as folder:
        control = pathlib.Path(folder) / "control"
        control.mkdir()
        with Shared(target.instance, pathlib.Path(folder), target.bin_dir or targets.ROOT / "build/release/bin", PROXIES, SETTINGS) as pair:
            if not say(pair.wait(lambda: pair.shared_by(*PROXIES), START_SECONDS, pause=0.3), "three proxies share the clients",
                       f"{pair.sharing()[0]} {pair.details()}\n" + "".join(pair.log(name) for name in pair.processes)):
                return False
            with contextlib.ExitStack() as stack:
                clients = [stack.enter_context(client.guest) and client for client in clients_of_each(pair, control)]
                if not all(say(client.guest.says("ready"), f"the client {client.address} works", client.guest.text[-500:] + client.guest.console[-500:])
                           for client in clients):
                    return False
                trial = Trial(pair, clients)
                for event in events:
                    EVENTS[event](trial)
                    if trial.wrong():
                        break
                sent = {name: pair.sent_on(name) for name in PROXIES}
                trial.ok &= say(max(sent.values()) > 100, f"packets were sent on: {sent}", sent)
                (control / "now").touch()
                codes = [client.guest.wait() for client in clients]
                return say(codes == [0] * len(clients), "no error and no wrong byte at any client", codes) and trial.ok
