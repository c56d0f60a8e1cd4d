"""The suite `address`: two proxies at one virtual address, of which one has it, and a kernel client that works all the time. The one that
has it is killed, stopped, cut off, stands still; the manager dies; a host on the clients' link claims the address. No event may cost the
client more than some seconds, an error or a wrong byte, and at its end one proxy has the address and the other stands by."""

import contextlib
import ipaddress
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import targets
import uml

sys.path.insert(0, str(targets.ROOT / "deploy/local"))
import confine  # noqa: E402  (its folder is known only now)

USER = 64739  # of the proxies, which run as their unit has it; needs no name
VIRTUAL, EVIL = "10.77.1.1", "02:00:00:00:06:66"
VIRTUAL6 = "fd77:0:0:1::1"  # beside it, where the volume has one
CLIENTS, CLIENTS6, SERVERS = "10.77.1.{}", "fd77:0:0:1::{}", "10.77.2.{}"
PROXIES = {"proxy1": 11, "proxy2": 12}
SERVED = {"dir1": ("directory", 3), "small1": ("small-file", 4), "store1": ("storage", 5), "store2": ("storage", 6), "coord1": ("coordinator", 7)}
START_SECONDS, SETTLE_SECONDS = 30, 25
CALM_WINDOWS, CALM_SECONDS = 5, 0.5  # of the load: so many in a row in which nothing took longer
# What a client changes before its proxy dies, over and over: large, small, and large again, but each other than before.
CHANGES = [{"size": 200 << 10, "tail": 24 << 10, "mode": 0o640}, {"size": 9000, "tail": 4000, "mode": 0o604}, {"size": 90 << 10, "tail": 8000, "mode": 0o600}]
ANSWER_SECONDS = 20
LONGEST, LONGEST_PLANNED, UNNOTICED = 5.0, 1.0, 1.0  # seconds


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} address {what}{'' if ok or not got else f': {got}'}", flush=True)
    return bool(ok)


def run(*command, check=True):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr or done.stdout}")
    return done


class Proxies:
    """Proxies on hosts of their own between two bridges, one with a client and one with the servers' host."""

    def __init__(self, instance, folder, bin_dir, proxies=PROXIES, settings=(), ipv6=False):
        """proxies: the last number of each one's addresses, by name. settings: more of their hosts' kernels, for sysctl. ipv6: there is a virtual
        address of IPv6 too, and the client goes by that one."""
        self.ipv6, self.virtual = ipv6, VIRTUAL6 if ipv6 else VIRTUAL
        self.addresses = {VIRTUAL, VIRTUAL6} if ipv6 else {VIRTUAL}
        self.prefix, self.folder, self.bin, self.processes = f"slice-{instance}-address", folder, pathlib.Path(bin_dir), {}
        self.proxies, self.settings = proxies, settings
        self.client = self.netns("client")

    def __enter__(self):
        self.remove_network()
        try:
            self.make_network()
            self.configure()
            for name in ("manager1", "servers", *self.proxies):
                self.start(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
        self.remove_network()
        for name in self.proxies:
            shutil.rmtree(self.bpf_folder(name), ignore_errors=True)

    def netns(self, name):
        return f"{self.prefix}-{name}"

    # --- network ---

    def link(self, bridge, port, name, device, address):
        run("ip", "-n", self.netns("net"), "link", "add", port, "type", "veth", "peer", "name", device, "netns", self.netns(name))
        run("ip", "-n", self.netns("net"), "link", "set", port, "master", bridge, "up")
        run("ip", "-n", self.netns(name), "address", "add", f"{address}/24", "dev", device)
        if self.ipv6 and bridge == "clients":
            run("ip", "-n", self.netns(name), "address", "add", CLIENTS6.format(address.rsplit(".", 1)[1]) + "/64", "dev", device, "nodad")
        run("ip", "-n", self.netns(name), "link", "set", device, "up")

    def make_network(self):
        for name in ("net", "client", "servers", *self.proxies):
            run("ip", "netns", "add", self.netns(name))
            run("ip", "-n", self.netns(name), "link", "set", "lo", "up")
        for bridge in ("clients", "servers"):
            run("ip", "-n", self.netns("net"), "link", "add", bridge, "type", "bridge")
            run("ip", "-n", self.netns("net"), "link", "set", bridge, "up")
        self.link("clients", "client", "client", "eth0", CLIENTS.format(2))
        self.link("servers", "hosts", "servers", "eth0", SERVERS.format(2))
        for _, number in SERVED.values():
            run("ip", "-n", self.netns("servers"), "address", "add", f"{SERVERS.format(number)}/24", "dev", "eth0")
        for name, number in self.proxies.items():
            self.link("clients", f"{name}-c", name, "eth0", CLIENTS.format(number))
            self.link("servers", f"{name}-s", name, "eth1", SERVERS.format(number))
            self.on(name, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.default.rp_filter=1",
                    *self.settings)

    def remove_network(self):
        for name in ("client", "servers", *self.proxies, "net"):
            run("ip", "netns", "del", self.netns(name), check=False)

    def on(self, name, *command, check=True):
        return run(*uml.in_netns(self.netns(name), *map(str, command)), check=check)

    def ports(self, name):
        return {f"{name}-c": "clients", f"{name}-s": "servers"}

    def set_ports(self, name, *words):
        for port in self.ports(name):
            run("ip", "-n", self.netns("net"), "link", "set", port, *words)

    def plug_in(self, name):
        for port, bridge in self.ports(name).items():
            run("ip", "-n", self.netns("net"), "link", "set", port, "master", bridge)

    # --- processes ---

    def bpf_folder(self, name):
        return f"/sys/fs/bpf/{self.prefix}-{name}"

    def config(self, name):
        return self.folder / f"{name if name in self.proxies else 'servers'}.toml"

    def configure(self):
        key = self.folder / "ensemble.key"
        key.touch(mode=0o600)
        key.write_text(os.urandom(32).hex() + "\n")
        servers = [("manager1", "manager", 2), *((name, role, number) for name, (role, number) in SERVED.items())]
        text = [f'[[server]]\nname = "{name}"\nrole = "{role}"\naddress = "{SERVERS.format(number)}"\ndata = "{self.folder}/data/{name}"\n'
                for name, role, number in servers]
        text += [f'[[server]]\nname = "{name}"\nrole = "proxy"\naddress = "{SERVERS.format(number)}"\n' for name, number in self.proxies.items()]
        for name in ("servers", *self.proxies):
            self.config(name).write_text(
                f'name = "address"\nkey_file = "{key}"\n[proxy]\nvirtual_address = {json.dumps(sorted(self.addresses))}\nxdp = "generic"\nthreads = 2\n'
                f'address_interface = "eth0"\nbpf_folder = "{self.bpf_folder(name)}"\n'
                '[[export]]\nclients = ["10.77.0.0/16", "fd77::/16"]\naccess = "rw"\nsquash = "none"\n\n' + "\n".join(text))
        (self.folder / "data").mkdir()
        os.chown(key, USER, USER)
        self.folder.chmod(0o755)

    def command(self, name):
        words = ["--config", self.config(name), "--name"]
        if name == "manager1":
            return [self.bin / "slice-managerd", *words, name]
        if name == "servers":
            return [self.bin / "slice-hostd", *words, *SERVED]
        unit = targets.ROOT / "deploy/systemd/slice-proxyd@.service"
        for preparation in confine.preparations(unit):
            run(*(word.replace("/sys/fs/bpf/slice", self.bpf_folder(name)).replace("slice:", f"{USER}:{USER}") for word in preparation), check=False)
        return [sys.executable, targets.ROOT / "deploy/local/confine.py", unit, USER, self.bin / "slice-proxyd", *words, name]

    def start(self, name):
        where = name if name in self.proxies else "servers"
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(uml.in_netns(self.netns(where), *map(str, self.command(name))), stdin=subprocess.DEVNULL,
                                                    stdout=log, stderr=log, start_new_session=True)

    def end(self, name, number):
        self.processes[name].send_signal(number)
        self.processes[name].wait(15)

    def signal(self, name, number):
        self.processes[name].send_signal(number)

    def slicectl(self, *words):
        return self.on("servers", self.bin / "slicectl", "--config", self.config("servers"), *words, check=False)

    def log(self, name, bytes_=3000):
        return f"---- {name}\n" + (self.folder / f"{name}.log").read_text(errors="replace")[-bytes_:]

    # --- who has the address ---

    def having(self):
        """Proxies on whose interface it is; where there are two, both."""
        def has(name):
            found = run("ip", "-n", self.netns(name), "-j", "address", "show", "dev", "eth0", check=False).stdout
            return self.addresses <= {each.get("local") for link in json.loads(found or "[]") for each in link.get("addr_info", [])}
        return [name for name in self.proxies if has(name)]

    def details(self):
        """What each proxy says of itself, by slicectl."""
        with contextlib.suppress(json.JSONDecodeError):
            said = json.loads(self.slicectl("--json", "status").stdout)
            return {each["name"]: each.get("detail", "") for each in said["servers"] if each["name"] in self.proxies and each["alive"]}
        return {}

    def metric(self, name, metric):
        found = targets.without_prefix(json.loads(self.slicectl("--json", "metrics", name).stdout)["processes"][0]["metrics"])
        return found[metric]

    def in_order(self):
        """One has it, and says so; the other stands by."""
        having, details = self.having(), self.details()
        return len(having) == 1 and all(("holds the address" if name in having else "stands by") in details.get(name, "") for name in self.proxies)

    def holder(self):
        having = self.having()
        if len(having) != 1:
            raise SystemExit(f"the address is at {having}\n{self.log('proxy1')}{self.log('proxy2')}{self.log('manager1')}")
        return having[0]

    def other(self, name):
        return next(each for each in self.proxies if each != name)

    def wait(self, until, seconds, pause=0.1):
        end = time.monotonic() + seconds
        while not (done := until()) and time.monotonic() < end:
            time.sleep(pause)
        return done


class Told:
    """A client that does as it is told (guest/address_attributes.py)."""

    def __init__(self, pair):
        self.pair, self.orders, self.last = pair, pathlib.Path(tempfile.mkdtemp(prefix="orders-", dir=pair.folder)), 0
        command = ["python3", str(uml.ROOT / "tests/cluster/guest/address_attributes.py"), ".", "--orders", "/run/slice/orders"]
        self.guest = uml.Guest(pair.client, pair.virtual, command, options="actimeo=0", timeout=300, memory="256M", shares={"orders": self.orders})

    def __enter__(self):
        self.guest.start()
        return self

    def __exit__(self, *_):
        self.order(end=True)
        self.guest.wait()

    def order(self, **what):
        """Gives it; its number."""
        self.last += 1
        part = self.orders / "part"
        part.write_text(json.dumps(what))
        part.rename(self.orders / str(self.last))
        return self.last

    def answer(self, number):
        """What has become of an order; {} where nothing has."""
        found = []

        def answered():
            lines = [json.loads(line) for line in self.guest.text.splitlines() if line.startswith("{") and line.endswith("}")]
            found[:] = [line for line in lines if line["order"] == number]
            return found
        return found[0] if self.pair.wait(answered, ANSWER_SECONDS, pause=0.01) else {}


class Trial:
    """Events under the load of one client."""

    def __init__(self, pair, guest):
        self.pair, self.guest, self.ok = pair, guest, True

    def windows(self, since):
        """What the load has printed since that many characters."""
        return [json.loads(line) for line in self.guest.text[since:].splitlines() if line.startswith("{") and line.endswith("}")]

    def is_calm(self, since):
        last = self.windows(since)[-CALM_WINDOWS:]
        return len(last) == CALM_WINDOWS and all(took < CALM_SECONDS and ended > 0 for window in last for took, ended in window.values())

    def judge(self, what, since, limit, holder=None):
        """When all is in order again: how long the client stood still, and who has the address."""
        calm = self.pair.wait(lambda: (self.is_calm(since) and self.pair.in_order()) or "WRONG" in self.guest.text, SETTLE_SECONDS)
        longest = {name: max(window[name][0] for window in self.windows(since)) for name in ("write", "read", "stat")}
        having = self.pair.having()
        good = calm and "WRONG" not in self.guest.text and max(longest.values()) < limit and holder in (None, *having)
        told = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in longest.items())
        print(f"{'ok' if good else 'not ok'} address {what}: the longest {told}; less than {limit} s wanted; {' and '.join(having) or 'nobody'} has it", flush=True)
        if not good:
            wrong = [line for line in self.guest.text.splitlines() if "WRONG" in line]
            print("\n".join([*wrong[:5], str(self.pair.details()), *(self.pair.log(name) for name in (*self.pair.proxies, "manager1"))]), flush=True)
        self.ok &= good
        return good

    def begin(self):
        self.pair.wait(lambda: self.pair.in_order(), SETTLE_SECONDS)
        return self.pair.holder(), len(self.guest.text)

    # --- events ---

    def restarted(self):
        holder, since = self.begin()
        self.pair.end(holder, signal.SIGKILL)
        self.pair.start(holder)
        self.judge("kill -9, started again at once", since, LONGEST, holder)

    def killed(self, what="kill -9"):
        holder, since = self.begin()
        self.pair.end(holder, signal.SIGKILL)
        self.pair.wait(lambda: self.pair.having() == [self.pair.other(holder)], 10)
        self.pair.start(holder)
        self.judge(what, since, LONGEST, self.pair.other(holder))

    def links_down(self):
        holder, since = self.begin()
        self.pair.set_ports(holder, "down")
        self.pair.wait(lambda: self.is_calm(since) and len(self.windows(since)) > 20, SETTLE_SECONDS)
        self.pair.set_ports(holder, "up")
        self.judge("links down", since, LONGEST, self.pair.other(holder))

    def links_silent(self):
        """Nothing passes, and its host sees no difference: it still has the address when it is back."""
        holder, since = self.begin()
        self.pair.set_ports(holder, "nomaster")
        self.pair.wait(lambda: self.is_calm(since) and len(self.windows(since)) > 20, SETTLE_SECONDS)
        both = self.pair.having()
        self.pair.plug_in(holder)
        self.ok &= say(len(both) == 2, "who is cut off keeps the address until it hears of the other", both)
        self.judge("links silent", since, LONGEST, self.pair.other(holder))

    def stood_still(self):
        holder, since = self.begin()
        self.pair.signal(holder, signal.SIGSTOP)
        time.sleep(10)
        self.pair.signal(holder, signal.SIGCONT)
        self.judge("SIGSTOP for 10 s", since, LONGEST, self.pair.other(holder))

    def stopped(self):
        holder, since = self.begin()
        self.pair.end(holder, signal.SIGTERM)
        self.pair.wait(lambda: self.pair.having() == [self.pair.other(holder)], 10)
        self.pair.start(holder)
        self.judge("clean stop", since, LONGEST_PLANNED, self.pair.other(holder))

    def moved(self):
        holder, since = self.begin()
        other = self.pair.other(holder)
        said = self.pair.slicectl("proxy", "hold", other)
        self.ok &= say(said.returncode == 0 and "holds the address" in said.stdout, "slicectl proxy hold", said.stdout + said.stderr)
        self.judge("moved by slicectl", since, LONGEST_PLANNED, other)

    def manager_dead(self):
        holder, since = self.begin()
        self.pair.end("manager1", signal.SIGKILL)
        time.sleep(10)
        self.pair.start("manager1")
        self.judge("the manager dead for 10 s", since, UNNOTICED, holder)

    def manager_and_holder(self):
        self.begin()
        self.pair.end("manager1", signal.SIGKILL)
        time.sleep(1)
        self.pair.start("manager1")
        self.pair.wait(lambda: self.pair.slicectl("status").returncode == 0, SETTLE_SECONDS)
        self.killed("kill -9 after the manager was killed and is back")

    def attributes(self):
        """What one client was told is done, both see by the next proxy; that one knows the file from before, but for the first time."""
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Told(self.pair)) for _ in range(2)]
            if not all(say(client.guest.says("ready"), "a client that does as it is told", client.guest.text + client.guest.console[-500:]) for client in clients):
                self.ok = False
                return
            self.seen_by_the_next("kill -9", *clients, CHANGES[0])
            self.seen_by_the_next("kill -9, back again", *reversed(clients), CHANGES[1])
            self.seen_by_the_next("moved by slicectl", *clients, CHANGES[2], killed=False)

    def seen_by_the_next(self, what, changer, looker, change, killed=True):
        holder, since = self.begin()
        other = self.pair.other(holder)
        wanted = changer.answer(changer.order(change="attributes", **change))
        if killed:
            self.pair.end(holder, signal.SIGKILL)
        else:
            self.ok &= say(self.pair.slicectl("proxy", "hold", other).returncode == 0, "slicectl proxy hold")
        orders = [(client, client.order(look="attributes")) for client in (changer, looker)]
        seen = [client.answer(number) for client, number in orders]
        having = self.pair.having()
        right = wanted and all((each.get("size"), each.get("mode")) == (wanted["size"], wanted["mode"]) for each in seen)
        same = seen[0].get("mtime_ns") == seen[1].get("mtime_ns")
        self.ok &= say(right and same and other in having, f"{what}: {other} shows both clients the size, mode and one time of change that {holder} acknowledged",
                       f"{wanted} became {seen}, {having}")
        if killed:
            self.pair.wait(lambda: self.pair.having() == [other], 10)
            self.pair.start(holder)
        self.judge(f"{what}, after changes of attributes", since, LONGEST if killed else LONGEST_PLANNED, other)

    def claimed(self):
        """A host on the clients' link says that it has the address, again and again."""
        holder, since = self.begin()
        before = self.pair.metric(holder, "proxy_address_claims_total")
        frame = claim(self.pair.virtual)
        sender = uml.in_netns(self.pair.client, sys.executable, "-c",
                              "import socket, sys, time\nout = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nout.bind(('eth0', 0))\n"
                              "for _ in range(60):\n    out.send(bytes.fromhex(sys.argv[1])); time.sleep(0.05)\n", frame.hex())
        run(*sender)
        claims = self.pair.metric(holder, "proxy_address_claims_total") - before
        self.ok &= say(claims >= 50, f"{claims} of 60 forged claims were counted")
        self.judge("forged claims of the address", since, LONGEST, holder)


def claim(address):
    """The frame in which EVIL says that it has the address: by ARP, or as a neighbour's advertisement."""
    target, evil = ipaddress.ip_address(address).packed, bytes.fromhex(EVIL.replace(":", ""))
    if len(target) == 4:
        return b"\xff" * 6 + evil + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + evil + target + bytes(6) + target
    everybody = ipaddress.ip_address("ff02::1").packed
    message = struct.pack("!BBHI", 136, 0, 0, 0x20000000) + target + b"\x02\x01" + evil
    words = struct.unpack("!36H", target + everybody + struct.pack("!II", len(message), 58) + message)
    total = sum(words)
    total = (total & 0xffff) + (total >> 16)
    check = ~((total & 0xffff) + (total >> 16)) & 0xffff
    message = message[:2] + struct.pack("!H", check) + message[4:]
    header = struct.pack("!IHBB", 6 << 28, len(message), 58, 255) + target + everybody
    return bytes.fromhex("333300000001") + evil + struct.pack("!H", 0x86dd) + header + message


EVENTS = {"restarted": Trial.restarted, "killed": Trial.killed, "links-down": Trial.links_down, "links-silent": Trial.links_silent,
          "stood-still": Trial.stood_still, "stopped": Trial.stopped, "moved": Trial.moved, "manager-dead": Trial.manager_dead,
          "manager-and-holder": Trial.manager_and_holder, "attributes": Trial.attributes, "claimed": Trial.claimed}


def address(target, options, ipv6=False):
    events = options.only.split(",") if options.only else list(EVENTS)
    with tempfile.TemporaryDirectory(prefix="slice-address-", dir="/dev/shm") as folder:
        control = pathlib.Path(folder) / "control"
        control.mkdir()
        with Proxies(target.instance, pathlib.Path(folder), target.bin_dir or targets.ROOT / "build/release/bin", ipv6=ipv6) as pair:
            if not say(pair.wait(pair.in_order, START_SECONDS), "one of two proxies has the address, and the other stands by",
                       f"{pair.details()}\n" + "".join(pair.log(name) for name in pair.processes)):
                return False
            command = ["python3", str(uml.ROOT / "tests/cluster/guest/address_load.py"), ".", "--until", "/run/slice/stop/now"]
            with uml.Guest(pair.client, pair.virtual, command, options="actimeo=0", timeout=600, shares={"stop": control}) as guest:
                if not say(guest.says("ready"), "a client works", guest.text[-500:] + guest.console[-500:]):
                    return False
                trial = Trial(pair, guest)
                for event in events:
                    EVENTS[event](trial)
                    if "WRONG" in guest.text:
                        break
                (control / "now").touch()
                code = guest.wait()
                return say(code == 0, "no error and no wrong byte at the client", f"exit code {code}: {guest.text[-500:]}") and trial.ok


def address6(target, options):
    """The same with an address of IPv6 beside, by which the client goes: both are at one proxy."""
    return address(target, options, ipv6=True)
