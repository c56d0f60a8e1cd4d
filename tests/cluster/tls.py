"""The suite `tls`: sessions over TLS, with the certificates of deploy/certificates.sh as docs/operations.md says. Files go in and out, and their bytes
are on no link between members; a server whose certificate is revoked is nobody's peer any more, and with a new one it is again."""

import json
import pathlib
import re
import subprocess
import time
import tomllib

import targets
import uml
from session_keys import counted, hang_up

ENSEMBLE = targets.ROOT / "deploy/local/ensemble.toml"
PATTERN = b"what nobody on the way may read "
REVOKED = "store1"

# Prints for each interface how many of its packets have the pattern, when its standard input ends.
SNIFFER = """
import select, socket, sys
ETH_P_ALL, pattern, seen = 3, sys.argv[1].encode(), {}
links = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) for _ in sys.argv[2:]]
for link, name in zip(links, sys.argv[2:]):
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    link.bind((name, 0))
    seen[name] = 0
print("ready", flush=True)
while True:
    for one in select.select([sys.stdin, *links], [], [])[0]:
        if one is sys.stdin:
            print(*(f"{name}={count}" for name, count in seen.items()), flush=True)
            sys.exit(0)
        seen[sys.argv[2 + links.index(one)]] += pattern in one.recv(1 << 17)
"""


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} tls {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Authority:
    """One of deploy/certificates.sh, in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.run("new")

    def run(self, command, *words):
        subprocess.run([str(targets.ROOT / "deploy/certificates.sh"), command, str(self.folder), *words], check=True, capture_output=True)

    def revoke(self, name):
        self.run("revoke", name)


class Certificates(Authority):
    """With a certificate for each process of the ensemble and one for slicectl."""

    def __init__(self, folder):
        super().__init__(folder / "ca")
        servers = tomllib.loads(ENSEMBLE.read_text())["server"]
        self.addresses = {server["name"]: [server["address"]] for server in servers}
        # The proxy's host calls each server from its end of that server's link, and slicectl runs there.
        legs = sorted({re.sub(r"\.\d+$", ".1", server["address"]) for server in servers})
        for name in ("proxy1", "slicectl"):
            self.addresses[name] = legs
        for name in self.addresses:
            self.issue(name)
        self.config = folder / "tls.toml"
        self.config.write_text(f'{ENSEMBLE.read_text()}\n[network]\ninternal = ["10.77.0.0/16"]\ntls_certificate = "{self.folder}/{{name}}.crt"\n'
                               f'tls_key = "{self.folder}/{{name}}.key"\ntls_authority = "{self.folder}/authority.crt"\n'
                               f'tls_revoked = "{self.folder}/revoked.pem"\n')

    def issue(self, name):
        self.run("issue", name, *self.addresses[name])


class Sniffer:
    """Counts packets with the pattern at the proxy's links, or these of another namespace, while it is open."""

    def __init__(self, target, netns=None, links=()):
        netns = netns or target.facts["proxy"]
        shown = subprocess.run(uml.in_netns(netns, "ip", "-json", "link"), capture_output=True, text=True, check=True).stdout
        links = links or [link["ifname"] for link in json.loads(shown) if link["ifname"] == "client" or link["ifname"].startswith("host")]
        self.process = subprocess.Popen(uml.in_netns(netns, "python3", "-c", SNIFFER, PATTERN.decode(), *links),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def close(self):
        """{interface: packets}"""
        out, _ = self.process.communicate(timeout=20)
        return {name: int(count) for name, count in (word.split("=") for word in out.split())}


class Files:
    """Copied by libnfs's own tool."""

    def __init__(self, target, folder):
        self.target, self.folder = target, folder
        self.bytes = PATTERN * ((3 << 20) // len(PATTERN))
        (folder / "file").write_bytes(self.bytes)

    def remote(self, name):
        return f"nfs://{self.target.server}{self.target.export}/{name}?version=3&nfsport={self.target.port}&mountport={self.target.mount_port}"

    def copy(self, source, to):
        return subprocess.run(uml.in_netns(self.target.netns, "timeout", "30", "nfs-cp", str(source), str(to)), capture_output=True).returncode == 0

    def come_back(self, name, write=True):
        back = self.folder / "back"
        back.unlink(missing_ok=True)
        if write and not self.copy(self.folder / "file", self.remote(name)):
            return False
        return self.copy(self.remote(name), back) and back.read_bytes() == self.bytes


def alive(target, name, wanted, patience=20):
    """Whether the manager comes to say so of the server."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        members = (target.status() or {"servers": []})["servers"]
        if any(member["name"] == name and member["alive"] == wanted for member in members):
            return True
        time.sleep(0.3)
    return False


def plain_is_refused(target, certificates):
    """slicectl without a certificate."""
    config = certificates.folder.parent / "plain.toml"
    text = pathlib.Path(target.facts["config"]).read_text()
    config.write_text(re.sub(r"(?m)^tls_.*\n", "", text))
    done = subprocess.run(uml.in_netns(target.facts["proxy"], str(target.bin_dir / "slicectl"), "--config", str(config), "--timeout", "2",
                                       "servers"), capture_output=True, text=True)
    return done.returncode == 1


def tls(ensembles, options):
    folder = ensembles.folder / "tls"
    folder.mkdir(exist_ok=True)
    certificates = Certificates(folder)
    with targets.Slice(f"{ensembles.instance}-tls", ensembles.folder, ensembles.bin_dir, own=True, config=certificates.config) as target:
        files = Files(target, folder)
        sniffer = Sniffer(target)
        ok = say(files.come_back("first"), "a file goes in and comes back")
        seen = sniffer.close()
        ok &= say(seen.pop("client") > 100, "it is on the client's link", seen)
        ok &= say(sum(seen.values()) == 0, "and on none between members", seen)
        ok &= say(plain_is_refused(target, certificates), "who has the key and no certificate is refused")
        before = counted(target, "rpc_sessions_refused_total")
        certificates.revoke(REVOKED)
        ok &= hang_up(target, "a certificate is revoked", say)
        ok &= say(alive(target, REVOKED, False), f"{REVOKED} is nobody's peer", target.slicectl("status", check=False).stdout)
        time.sleep(1)
        others = sum(target.metrics(name).get("rpc_sessions_refused_total", 0) for name in target.process_names if name != REVOKED)
        ok &= say(others > before, "it was refused", others)
        certificates.issue(REVOKED)
        ok &= hang_up(target, "it has a new one", say)
        ok &= say(alive(target, REVOKED, True), f"{REVOKED} is back", target.slicectl("status", check=False).stdout)
        target.wait_serving()
        ok &= say(files.come_back("first", write=False) and files.come_back("second"), "files old and new come back")
        return ok
