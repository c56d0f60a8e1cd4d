"""Where attacks take place: an ensemble, a victim with files on one leg of the network, and an attacker on another."""

import contextlib
import re
import subprocess
import threading
import time

from attacks import network, rpc
from attacks.attack import Succeeded, must
from resident import resident

ATTACKER_LEG = 100
ATTACKER_NET = f"10.77.{ATTACKER_LEG}"
STRANGER = "10.77.201.9"  # of an exported network that is nowhere
VICTIM_UID, ATTACKER_UID = 1000, 1001
SMALL, LARGE = 500, 300_000  # bytes of the victim's files
SAMPLE_SECONDS = 0.1

# The attacker's export is not secure: it has more connections than a host has reserved ports, and what is asked over them is to be
# refused for better reasons than a port.
EXPORTS = f"""[[export]]
clients = "10.77.1.0/24"
squash = "none"

[[export]]
clients = "10.77.201.0/24"
squash = "none"

[[export]]
clients = "{ATTACKER_NET}.0/24"
squash = "root"
secure = false
"""


def template(text):
    """The local ensemble's configuration with exports by network: root on the victim's and on the stranger's, none on the attacker's."""
    head, *rest = re.split(r"^(?=\[\[server\]\])", text, flags=re.MULTILINE)
    return head[:head.index("[[export]]")] + EXPORTS + "\n" + "".join(rest)


def content(name, size):
    seed = sum(name.encode())
    return bytes((seed + i * 7 + (i >> 8)) & 0xff for i in range(size))


class Memory:
    """The largest VmRSS of each process, sampled until `stop`."""

    def __init__(self, target):
        self.pids = target.pids()
        self.peak = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def now(self):
        """MiB by process."""
        sizes = {}
        for name, pid in self.pids.items():
            with contextlib.suppress(OSError):
                sizes[name] = resident(pid) / 2**20
        return sizes

    def _sample(self):
        while not self._stopped.wait(SAMPLE_SECONDS):
            for name, size in self.now().items():
                self.peak[name] = max(size, self.peak.get(name, 0))

    def restart(self):
        """Peaks count from now on, of the processes that now run."""
        self.peak = self.now()

    def stop(self):
        self._stopped.set()
        self._thread.join()


class Scene:
    """Use as a context; `ready` makes the files. Everything that the attacker does goes out of its own namespace."""

    def __init__(self, target, name, options):
        self.target, self.name, self.options = target, name, options
        self.victim_netns, self.attacker_netns = target.netns, f"{target.facts['proxy'].removesuffix('-proxy')}-host100"
        self.virtual, self.addresses = target.server, target.facts["addresses"]
        self.attacker_address = f"{ATTACKER_NET}.2"
        self.over = threading.Event()  # the load beside the attack has ended
        self.seed = options.seed

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        try:
            self._add_leg()
            self.wire = network.Wire(self.attacker_netns, self.target.facts["proxy"], "attacker")
            self.stack.callback(self.wire.close)
            self._make_files()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_):
        self.stack.close()

    def _add_leg(self):
        """The attacker's link, made by the ensemble's own code; it goes with the ensemble's other namespaces. Strict reverse-path
        filtering on the clients' links is what docs/operations.md has operators set."""
        self.target.add_leg("attacker", self.attacker_netns, ATTACKER_LEG)
        for link in ("client", "attacker"):
            subprocess.run(["nsenter", f"--net=/run/netns/{self.target.facts['proxy']}", "sysctl", "-qw", f"net.ipv4.conf.{link}.rp_filter=1"],
                           check=True)
        if not self.target.has_xdp:
            return
        # The program is attached to interfaces that are there when the proxy starts.
        self.target.stop(self.target.proxy)
        self.target.start(self.target.proxy)
        self.target.wait_serving()

    # --- callers --------------------------------------------------------------------------

    def victim(self, transport="tcp", port=2049, server=None, **settings):
        """The good client, as root of its own, exported network."""
        return rpc.Caller(self.victim_netns, server or self.virtual, port, transport, **settings)

    def attacker(self, transport="udp", port=2049, server=None, uid=ATTACKER_UID, **settings):
        return rpc.Caller(self.attacker_netns, server or self.virtual, port, transport, uid=uid, **settings)

    def address_of(self, role):
        """Of the first server whose name begins so."""
        return self.addresses[next(name for name in self.addresses if name.startswith(role))]

    # --- files ----------------------------------------------------------------------------

    def _make_files(self):
        """Folders of the victim's, of several placements, one of them private, with files in each; and the attacker's own."""
        self.root = rpc.mount_root(self.victim_netns, self.virtual, patience=20)
        self.files, self.own = {}, {}
        with self.victim() as root:
            self.own_folder = root.mkdir(self.root, "attacker", 0o777)
            self.victim_folder = root.mkdir(self.root, "victim", 0o755)
            self.private_folder = root.mkdir(self.victim_folder, "private", 0o700)
            for name, policy in (("mirrored", ("--copies", "2")), ("mapped", ("--placement", "free-space"))):
                for above in (self.victim_folder, self.own_folder):
                    root.mkdir(above, name)
                self.target.slicectl("policy", "set", f"/victim/{name}", *policy)
                self.target.slicectl("policy", "set", f"/attacker/{name}", *policy)
            for name, folder in (("", self.victim_folder), ("private", self.private_folder)):
                self._victims_file(root, folder, f"{name}small", 0o600, SMALL)
            self._victims_file(root, self.private_folder, "privateopen", 0o644, SMALL)
            self._victims_file(root, self.victim_folder, "large", 0o600, LARGE)
            for name in ("mirrored", "mapped"):
                self._victims_file(root, root.lookup(self.victim_folder, name), f"{name}-large", 0o600, LARGE)
                self._own_file(root, root.lookup(self.own_folder, name), f"{name}-large", LARGE)
            self._own_file(root, self.own_folder, "small", SMALL)
            self._own_file(root, self.own_folder, "large", LARGE)
            root.chown(self.own_folder, ATTACKER_UID)
            root.chown(self.private_folder, VICTIM_UID)
            root.chown(self.victim_folder, VICTIM_UID)
            self.scratch = root.create(self.root, "scratch", 0o600)
        self.remember()

    def _victims_file(self, root, folder, name, mode, size):
        handle = root.create(folder, name, mode)
        root.write(handle, 0, content(name, size))
        root.chown(handle, VICTIM_UID)
        self.files[name] = (handle, size)

    def _own_file(self, root, folder, name, size):
        handle = root.create(folder, name, 0o644)
        root.write(handle, 0, content(name, size))
        root.chown(handle, ATTACKER_UID)
        self.own[name] = handle

    def remember(self):
        """What the victim's files are like from now on."""
        with self.victim() as root:
            self.expected = {name: self._kept(root.getattr(handle)) for name, (handle, _) in self.files.items()}
            self.names = self._listing(root)

    def restore(self):
        """Makes the victim's files again what they were, after an attack that succeeded, so that the next begins anew."""
        with self.victim(patience=20) as root:
            for name, (handle, size) in self.files.items():
                root.good(rpc.SETATTR, rpc.opaque(handle) + rpc.u32(0, 0, 0, 1) + rpc.u64(size) + rpc.u32(0, 0, 0))
                root.write(handle, 0, content(name, size))
        self.remember()

    @staticmethod
    def _kept(attributes):
        """What nobody but the owner changes; atime moves when the checks here read."""
        return attributes._replace(atime=0, used=0)

    def _listing(self, root):
        data = root.good(rpc.READDIRPLUS, rpc.opaque(self.victim_folder) + rpc.u64(0, 0) + rpc.u32(8192, 32768))
        return len(data)

    def check_victim(self):
        """Raises Succeeded where anything of the victim's is other than it was, over TCP, over UDP, or at the directory server itself."""
        for transport in ("tcp", "udp"):
            with self.victim(transport, patience=15) as root:
                for name, (handle, size) in self.files.items():
                    self._check_file(root, f"over {transport}", name, handle)
                    must(root.read(handle, size) == content(name, size), f"bytes of the victim's {name} changed ({transport})")
                must(self._listing(root) == self.names, "the victim's folder lists otherwise")
        with self.victim(server=self.address_of("dir"), patience=15) as root:
            for name, (handle, _) in self.files.items():
                self._check_file(root, "at the directory server", name, handle)

    def _check_file(self, root, where, name, handle):
        seen = self._kept(root.getattr(handle))
        wanted = self.expected[name]
        changed = [f"{field} {getattr(seen, field)}, not {getattr(wanted, field)}" for field in seen._fields
                   if getattr(seen, field) != getattr(wanted, field)]
        must(not changed, f"{name} of the victim {where}: {', '.join(changed)}")

    # --- during an attack -----------------------------------------------------------------

    def hold(self, longest=60):
        """Until the load beside the attack has ended."""
        self.over.wait(longest)

    def send_forged(self, source, source_port, message, *, destination=None, port=2049, **settings):
        """A datagram of the attacker's link with that source address."""
        self.wire.send(network.datagram(source, source_port, destination or self.virtual, port, message), **settings)

    @contextlib.contextmanager
    def jumbo(self, mtu=9000):
        """The attacker's link takes long frames, where its driver allows that."""
        ends = [("-n", self.target.facts["proxy"], "link", "set", "attacker"), ("-n", self.attacker_netns, "link", "set", "eth0")]
        for size in (mtu, 1500):
            for end in ends:
                subprocess.run(["ip", *end, "mtu", str(size)], capture_output=True, check=False)
            if size == mtu:
                yield

    def exists(self, folder, name):
        """As the victim's root sees it."""
        with self.victim() as root:
            status, _ = root.nfs(rpc.LOOKUP, rpc.opaque(folder) + rpc.opaque(name))
        if status not in (rpc.OK, rpc.NOENT):
            raise Succeeded(f"LOOKUP of {name} answers {status}")
        return status == rpc.OK

    def serves_newcomers(self, patience=3.0):
        """A client that was not there before mounts and reads attributes, over TCP and UDP."""
        for transport in ("tcp", "udp"):
            start = time.monotonic()
            root = rpc.mount_root(self.victim_netns, self.virtual, transport=transport, patience=patience)
            with self.victim(transport, patience=patience) as caller:
                caller.getattr(root)
            must(time.monotonic() - start < patience, f"a new client over {transport} waits {time.monotonic() - start:.1f} s")
