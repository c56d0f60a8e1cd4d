"""The suite `encryption`: clients that ask for TLS over their connections (docs/encryption.md). What they write is on no link of theirs; exports that want
TLS, or a client's certificate, take nothing else, at any server; certificates are revoked and replaced while all serves; and a load whose replies are
checked goes on through it while the proxy is killed."""

import os
import pathlib
import signal
import time

import load
import targets
from attacks import rpc
from attacks.access import servers_of
from tls import PATTERN, Authority, Sniffer

SERVICE, CLIENT = "service", "client"
LOAD_SECONDS, KILLS, PATIENCE = 12, 3, 40
READ_AGAIN = "SIGHUP: the certificate for clients is read again"
REFUSED = 'access_refused_total{why="transport"}'
PLACES = (0, 70_000)  # of small-file servers and of storage nodes


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} encryption {what}{'' if ok or got == '' else f': {got}'}", flush=True)
    return bool(ok)


class Certificates(Authority):
    """With the service's certificate, for the virtual address, and a client's."""

    def __init__(self, folder, address):
        super().__init__(folder / "clients-ca")
        self.address = address
        self.issue(SERVICE)
        self.issue(CLIENT)

    def issue(self, name):
        self.run("issue", name, self.address if name == SERVICE else "10.9.9.9")

    def files(self, name):
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"

    def authority(self):
        return self.folder / "authority.crt"

    def context(self, own=False):
        return rpc.tls_context(self.authority(), self.files(CLIENT) if own else None)

    def into(self, text):
        """A configuration whose proxies have the service's."""
        certificate, key = self.files(SERVICE)
        return targets.with_lines(text, "[proxy]", f'tls_certificate = "{certificate}"', f'tls_key = "{key}"', f'tls_authority = "{self.authority()}"',
                                  f'tls_revoked = "{self.folder}/revoked.pem"')


class Scene:
    def __init__(self, target, certificates):
        self.target, self.certificates = target, certificates
        self.process = target.processes_of(target.servers("proxy"))[0]
        self.virtual, self.addresses = target.server, target.facts["addresses"]
        self.config = pathlib.Path(target.facts["config"])
        self.first = self.config.read_text()
        self.root = rpc.mount_root(target.netns, target.server)
        with self.clear() as caller:
            self.file = caller.create(self.root, "file", 0o666)
            for at in PLACES:
                caller.write(self.file, at, PATTERN)

    def clear(self, server=None, transport="tcp"):
        return rpc.Caller(self.target.netns, server or self.target.server, self.target.port, transport, patience=10)

    def tls(self, own=False):
        """A connection that TLS has begun on; NoAnswer where it cannot."""
        caller = self.clear()
        try:
            return caller.begin_tls(self.certificates.context(own))
        except rpc.NoAnswer:
            caller.socket.close()
            raise

    def exports_want(self, words):
        """Told to the manager, which tells all."""
        self.config.write_text(targets.with_lines(self.first, "[[export]]", f"xprtsec = {words}"))
        done = self.target.slicectl("reload", check=False)
        return say(done.returncode == 0, f"exports want {words}", done.stdout + done.stderr)

    def counted(self, name):
        """By all servers, whatever process each is in."""
        return sum(self.target.metrics(server).get(name, 0) for server in self.target.facts["processes"])

    def hang_up(self, what):
        """SIGHUP to the process that has the proxy, until it has read the certificate again."""
        log = self.config.parent / "log" / f"{self.process}.log"
        before = log.read_text().count(READ_AGAIN)
        os.kill(self.target.pids()[self.process], signal.SIGHUP)
        for _ in range(100):
            if log.read_text().count(READ_AGAIN) > before:
                return say(True, what)
            time.sleep(0.1)
        return say(False, what, f"the proxy did not say '{READ_AGAIN}'")

    def statuses(self, caller):
        return {caller.nfs(rpc.READ, rpc.opaque(self.file) + rpc.u64(at) + rpc.u32(len(PATTERN)))[0] for at in PLACES} | {
            caller.nfs(rpc.WRITE, rpc.write_arguments(self.file, at, PATTERN))[0] for at in PLACES} | {caller.nfs(rpc.GETATTR, rpc.opaque(self.file))[0]}

    def takes(self, what, caller, wanted=rpc.OK):
        with caller:
            said = self.statuses(caller)
        return say(said == {wanted}, what, said)

    def nowhere_in_clear(self):
        ok = True
        for server in servers_of(self):
            for transport in ("tcp", "udp"):
                ok &= self.takes(f"in clear over {transport} at {server}: refused", self.clear(server, transport), rpc.ACCES)
        return ok


def nothing_to_read(scene):
    """What goes over the client's link, once in clear and once by TLS."""
    ok = True
    for what, begin, seen in (("in clear", scene.clear, True), ("through TLS", scene.tls, False)):
        sniffer = Sniffer(scene.target)
        with begin() as caller:
            handle = caller.create(scene.root, f"read {what}", 0o644)
            for number in range(20):
                caller.write(handle, number * len(PATTERN), PATTERN)
            caller.write(handle, 1 << 20, PATTERN * 4000)
            status, data = caller.nfs(rpc.READ, rpc.opaque(handle) + rpc.u64(1 << 20) + rpc.u32(len(PATTERN) * 4000))
            ok &= say(status == rpc.OK and PATTERN * 4000 in data, f"bytes come back {what}", status)
        packets = sniffer.close()["client"]
        ok &= say((packets > 20) == seen, f"{what} they {'can' if seen else 'cannot'} be read on the link", packets)
    with scene.tls() as caller:
        ok &= say(caller.socket.version() == "TLSv1.3" and caller.socket.selected_alpn_protocol() == "sunrpc", "TLS 1.3, and RPC by its name",
                  (caller.socket.version(), caller.socket.selected_alpn_protocol()))
    return ok


def exports_want_tls(scene):
    ok = scene.exports_want('["tls", "mtls"]')
    before = scene.counted(REFUSED)
    ok &= scene.nowhere_in_clear() and say(scene.counted(REFUSED) > before, f"and counted as {REFUSED}")
    ok &= scene.takes("through TLS: served", scene.tls())
    ok &= scene.takes("through TLS with a certificate: served", scene.tls(own=True))
    return ok & say(rpc.mount_root(scene.target.netns, scene.target.server) == scene.root, "MOUNT answers in clear, as kernel clients ask it")


def exports_want_certificates(scene):
    ok = scene.exports_want('"mtls"')
    ok &= scene.nowhere_in_clear()
    ok &= scene.takes("through TLS without a certificate: refused", scene.tls(), rpc.ACCES)
    ok &= scene.takes("with one: served", scene.tls(own=True))
    old = scene.tls(own=True)
    scene.certificates.revoke(CLIENT)
    ok &= scene.hang_up("the client's certificate is revoked")
    ok &= say(ends(old), "its connection ends")
    ok &= say(not begins(scene, own=True), "it gets no other")
    scene.certificates.issue(CLIENT)
    return ok & scene.takes("with a new one: served", scene.tls(own=True))


def ends(caller):
    try:
        caller.nfs(rpc.GETATTR, rpc.opaque(bytes(56)))
    except rpc.NoAnswer:
        return True
    return False


def begins(scene, own):
    """A client's certificate is looked at behind its own part of the handshake: the first answer says."""
    try:
        with scene.tls(own) as caller:
            return caller.nfs(rpc.GETATTR, rpc.opaque(scene.root))[0] == rpc.OK
    except rpc.NoAnswer:
        return False


def service_is_renewed(scene):
    def serial():
        with scene.tls(own=True) as caller:
            return caller.socket.getpeercert()["serialNumber"]

    before = serial()
    scene.certificates.issue(SERVICE)
    ok = scene.hang_up("the service has a new certificate")
    ok &= say(serial() != before, "new connections are shown that one")
    days = (scene.counted("proxy_tls_certificate_ends_seconds") - time.time()) / 86400
    return ok & say(800 < days < 850, "the proxy's metrics say until when it counts", days)


def load_goes_on(scene, options):
    """slice-load in TLS alone, while the proxy is killed."""
    ok = scene.exports_want('["tls", "mtls"]')
    good, said = load.while_killed(scene.target, options, [scene.process] * KILLS, LOAD_SECONDS, PATIENCE, "--tls", scene.certificates.authority())
    return ok & say(good, f"a load goes on through TLS while the proxy is killed {KILLS} times", said)


def encryption(ensembles, options):
    folder = ensembles.folder / "encryption"
    folder.mkdir(exist_ok=True)
    template = targets.ROOT / "deploy/local/ensemble.toml"
    certificates = Certificates(folder, "10.77.0.1")
    config = folder / "ensemble.toml"
    config.write_text(certificates.into(template.read_text()))
    with ensembles.make("encryption", config=config, directories=2) as target:
        scene = Scene(target, certificates)
        ok = nothing_to_read(scene) & exports_want_tls(scene) & exports_want_certificates(scene) & service_is_renewed(scene)
        ok &= load_goes_on(scene, options)
        done = target.slicectl("fsck", check=False)
        return ok & say(done.returncode == 0, "fsck finds nothing", done.stdout[-500:])
