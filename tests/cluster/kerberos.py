"""The suite `kerberos`: users who show tickets. A realm of its own, kernel clients that mount with sec=krb5, krb5i and krb5p, and RPCSEC_GSS by hand: each
user is who the ticket says, whatever the client claims; what nobody may read or change on the way is neither; exports take the flavors that they name
and no other, at any server; contexts end, proxies and the KDC are away for a while, and nobody loses a byte.

`kerberos-peer` is the same against NFS-Ganesha, which shows that the suite is right about clients."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import threading
import time

import kerberos_peer
import kerberos_realm
import reload
import targets
import uml
from attacks import gss, rpc
from attacks.access import servers_of
from kerberos_attacks import attacks
from tls import PATTERN, Sniffer

ONE, OTHER, STRANGER, SHORT = "games", "irc", "mail", "backup"  # accounts that every Debian has
USERS = {"games": (5, 60), "irc": (39, 39), "mail": (8, 8), "backup": (34, 34)}
ALL = ("sys", "krb5", "krb5i", "krb5p")
NOBODY = 65534
NAME = PATTERN.decode()  # begins those of files, and is each line of them
BYTES = 3 << 20
LINE = NAME + "\n"
MD5 = hashlib.md5((LINE * (BYTES // len(LINE) + 1)).encode()[:BYTES]).hexdigest()
SHORT_SECONDS, LONG_SECONDS = 15, 45  # of a ticket, and of who writes meanwhile
KILLS = 3
GUEST_SECONDS = 300
AS, LOGIN, LOGOUT = (f"{kerberos_realm.SHOWN}/{tool}" for tool in ("as", "login", "logout"))
# A user who writes small files, each synced, for a while, and reads them; the first error ends it, or the first that is there again after 2 s.
WRITER = """
persist() { "$@" || { [ AGAIN = yes ] && sleep 2 && again=$((again + 1)) && "$@"; } || { echo "at $i: $*"; exit 1; }; }
write() { echo "file $i" > FOLDER/$i && sync FOLDER/$i; }
is_right() { [ "$(cat FOLDER/$i)" = "file $i" ]; }
i=0
again=0
end=$(($(date +%s) + SECONDS_))
while [ $(date +%s) -lt $end ]; do
    i=$((i + 1))
    persist write
    sleep 0.2
done
last=$i
for i in $(seq $last); do persist is_right; done
echo "wrote $last, $again of them again"
"""


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} kerberos {what}{'' if ok or got == '' else f': {got}'}", flush=True)
    return bool(ok)


class Scene:
    """What the cases know of a volume; its folder `open` is everybody's."""

    machine = NOBODY  # whom root's ticket, which is the machine's, makes
    known_failures = ()
    transports = ("tcp",)  # that contexts are made over

    def __init__(self, target, realm):
        self.target, self.realm = target, realm
        self.root = rpc.mount_root(target.netns, target.server, path=target.export)
        with self.sys() as caller:
            self.open = caller.mkdir(self.root, "open")
            caller.good(rpc.SETATTR, rpc.opaque(self.open) + rpc.u32(1, 0o777, 0, 0, 0, 0, 0) + rpc.u32(0))  # whatever a mask leaves of MKDIR's

    def sys(self, server=None, transport="tcp", uid=0):
        return rpc.Caller(self.target.netns, server or self.target.server, self.target.port, transport, uid=uid, patience=10)

    @contextlib.contextmanager
    def user(self, user, transport="tcp", patience=10):
        """A gss.Context of the user's."""
        ticket = self.realm.ticket(user)
        with rpc.Caller(self.target.netns, self.target.server, self.target.port, transport, patience=patience) as caller:
            yield gss.Context(caller, ticket)

    @contextlib.contextmanager
    def client(self, sec, *logged_in, **settings):
        """A kernel client that is mounted, as reload.Steps."""
        guest = self.realm.guest(self.target, ["bash", "-c", reload.GUEST], sec=sec, logged_in=logged_in, timeout=GUEST_SECONDS, **settings)
        with guest:
            if not guest.says("ready"):
                raise uml.UmlError(f"a client with sec={sec} does not mount: {guest.text[-500:]}{guest.console[-500:]}")
            yield reload.Steps(guest)
            (guest.folder / "end").touch()
            guest.wait(20)

    def mounts(self, sec):
        """Whether a kernel client that wants this flavor, or with None whatever there is, can mount; and with which one it has."""
        with self.realm.guest(self.target, ["grep", " /mnt nfs ", "/proc/mounts"], sec=sec, timeout=90) as guest:
            guest.wait()
            return (re.findall(r"\bsec=(\w+)", guest.text) or [None])[0]

    def mount_flavors(self):
        with rpc.Caller(self.target.netns, self.target.server, self.target.mount_port) as caller:
            data = caller.call(rpc.MOUNT, 3, 1, rpc.opaque(self.target.export))
        rest = gss.behind_opaque(data[4:])
        count = int.from_bytes(rest[:4], "big")
        return [int.from_bytes(rest[4 * number:4 * number + 4], "big") for number in range(1, count + 1)]

    def sniffer(self):
        return Sniffer(self.target)

    def seen(self, sniffer):
        return sniffer.close()["client"]


class SliceScene(Scene):
    def __init__(self, target, realm):
        super().__init__(target, realm)
        self.process = target.processes_of(target.servers("proxy"))[0]
        self.virtual, self.addresses = target.server, target.facts["addresses"]
        self.config = pathlib.Path(target.facts["config"])
        self.first = self.config.read_text()

    def exports_want(self, flavors):
        self.config.write_text(targets.with_lines(self.first, "[[export]]", f"sec = {json.dumps(flavors)}"))
        done = self.target.slicectl("reload", check=False)
        return say(done.returncode == 0, f"exports want {' '.join(flavors)}", done.stdout + done.stderr)

    def restart(self):
        self.target.kill_and_start(self.process)

    def pid(self):
        return self.target.pids()[self.process]

    def servers(self):
        return servers_of(self)


class PeerScene(Scene):
    machine = 0  # Ganesha takes a machine's principal for root
    # It dies of the first and hangs up upon the second; it takes a number for used before it has looked at the verifier, so that anybody can use others' up.
    known_failures = ("a handle of no bytes", "garbage", "a high number with a wrong verifier moves no window", "a handle was tried by another user",
                      "another user's DESTROY", "another user tried to end a context")

    def exports_want(self, flavors):
        self.target.kill(None)
        self.target.peer.flavors = flavors
        self.target.start(None)
        return True

    def restart(self):
        self.target.kill(None)
        self.target.start(None)

    def pid(self):
        return self.target.pids()["ganesha"]

    def servers(self):
        return [self.target.server]

    def sniffer(self):
        return Sniffer(None, self.target.peer.server_netns, [self.target.peer.link + "s"])

    def seen(self, sniffer):
        return sum(sniffer.close().values())


def expect(client, what, script, wanted=None, code=0):
    """The script ends with this code, and says what matches; code None: any but 0."""
    got, said = client.run(script)
    right = (got != 0 if code is None else got == code) and (wanted is None or re.search(wanted, said) is not None)
    return say(right, what, f"exit code {got}, {said[-600:]}")


def by_kernel_client(scene, sec):
    folder, sniffer = f"by-{sec}", scene.sniffer()
    with scene.client(sec, ONE, OTHER) as client:
        ok = expect(client, f"{sec}: a user makes a folder", f"cd open && {AS} {ONE} mkdir -m 1777 {folder} && cd {folder}")
        for user in (ONE, OTHER):
            uid, gid = USERS[user]
            write = f"umask 077; yes '{NAME}' | head -c {BYTES} > '{NAME}{user}'"
            ok &= expect(client, f"{sec}: {user} writes 3 MiB", f'{AS} {user} bash -c "{write}"')
            ok &= expect(client, f"{sec}: and owns it", f"stat -c '%u %g %a %s' '{NAME}{user}'", rf"^{uid} {gid} 600 {BYTES}$")
        client.run("echo 3 > /proc/sys/vm/drop_caches")
        for user, who_else in ((ONE, OTHER), (OTHER, ONE)):
            ok &= expect(client, f"{sec}: {user} reads it", f"{AS} {user} md5sum '{NAME}{user}'", MD5)
            ok &= expect(client, f"{sec}: {who_else} may not", f"{AS} {who_else} cat '{NAME}{user}'", "Permission denied", code=1)
        ok &= expect(client, f"{sec}: who has no ticket is refused", f"{AS} {STRANGER} ls .", "Permission denied|expired", code=None)
        ok &= expect(client, f"{sec}: that one's files, too", f"{AS} {STRANGER} touch new", "Permission denied|expired", code=None)
        ok &= expect(client, f"{sec}: others go on", f"{AS} {ONE} touch more && {AS} {OTHER} ls .", "more")
        # The ticket counts, not what the client says of the user.
        uid, gid = USERS[ONE]
        script = f"{LOGIN} {STRANGER} {ONE} && {AS} {STRANGER} touch by-ticket && stat -c '%u %g' by-ticket"
        ok &= expect(client, f"{sec}: a ticket's user is the owner, whoever shows it", script, f"^{uid} {gid}$")
        ok &= expect(client, f"{sec}: root is who the machine's ticket says", "touch by-root && stat -c %u by-root", f"^{scene.machine}$")
        if scene.machine != 0:
            ok &= expect(client, f"{sec}: and has no right to others' files", f"cat '{NAME}{ONE}'", "Permission denied", code=1)
    seen = scene.seen(sniffer)
    return ok & say((seen > 0) == (sec != "krb5p"), f"{sec}: names and bytes {'can' if sec != 'krb5p' else 'cannot'} be read on the link", seen)


def is_refused(ask):
    """By a status or by an error of RPC."""
    try:
        return ask()[0] != rpc.OK
    except rpc.Refused:
        return True


def exports_take(scene, flavors):
    """What is not named is refused, at any server; what is is served; and clients are told by MOUNT."""
    ok, names = scene.exports_want(flavors), " ".join(flavors)
    wanted = [gss.FLAVORS[flavor] for flavor in flavors]
    told = [flavor for flavor in scene.mount_flavors() if flavor != 0]  # AUTH_NONE may be told beside AUTH_SYS
    ok &= say(sorted(told) == sorted(wanted), f"{names}: MOUNT tells it", told)
    read = rpc.opaque(scene.open) + rpc.u32(0x3f)
    if "sys" not in flavors:
        for server in scene.servers():
            for transport in ("tcp", "udp"):
                with scene.sys(server, transport, uid=5) as caller:
                    ok &= say(is_refused(lambda: caller.nfs(rpc.ACCESS, read)), f"{names}: AUTH_SYS over {transport} at {server} is refused")
                    ok &= say(is_refused(lambda: caller.nfs(rpc.CREATE, rpc.opaque(scene.open) + rpc.opaque("x") + rpc.u32(0) + rpc.with_mode(0o644))),
                              f"{names}: so it is to make files")
    with scene.user(ONE) as context:
        for flavor, service in gss.SERVICES.items():
            refused = is_refused(lambda: context.nfs(rpc.ACCESS, read, service=service))
            ok &= say(refused == (flavor not in flavors), f"{names}: {flavor} is {'served' if flavor in flavors else 'refused'}")
    return ok


def clients_choose(scene):
    ok = scene.exports_want(["krb5p"])
    ok &= say((got := scene.mounts(None)) == "krb5p", "krb5p alone: a client that is told nothing takes it", got)
    ok &= say((got := scene.mounts("krb5")) is None, "krb5p alone: a client that wants krb5 does not mount", got)
    ok &= say((got := scene.mounts("sys")) is None, "krb5p alone: nor does one that wants sys", got)
    return ok & scene.exports_want(ALL)


def writing(user, folder, seconds, again="no"):
    script = WRITER.replace("FOLDER", folder).replace("SECONDS_", str(seconds)).replace("AGAIN", again)
    return (f"cat > /tmp/writer-{user} <<'END'\n{script}\nEND\n{AS} {user} mkdir open/{folder} && cd open && {AS} {user} bash /tmp/writer-{user}; "
            "code=$?; cd /mnt; (exit $code)")


def until_it_works(user, command, tries=30):
    return f"for try in $(seq {tries}); do {AS} {user} {command} && break; sleep 1; done; {AS} {user} {command}"


def contexts_end(scene):
    """While a user writes; then with a user's own tickets."""
    scene.realm.live(scene.realm.service, SHORT_SECONDS)
    scene.realm.live(SHORT, SHORT_SECONDS)
    try:
        with scene.client("krb5i", ONE, SHORT) as client:
            # In a ticket's last second rpc.gssd makes a context that has ended when it is made, and users are told "Key has expired", by any server.
            script = writing(ONE, "expiring", LONG_SECONDS, again="yes")
            ok = expect(client, f"contexts of {SHORT_SECONDS} s: a user writes for {LONG_SECONDS} s", script, r"wrote \d+, [0-5] of")
            _, said = client.run(f"grep -c \"uid={USERS[ONE][0]} \" {kerberos_realm.GSSD_LOG}")
            ok &= say(int(said) >= 3, "contexts of its own were made anew", said)
            # By now that user's ticket has ended; what the first one of them made is as it was.
            ok &= expect(client, "a ticket that has ended is refused", f"{AS} {SHORT} touch open/late", "Permission denied|expired", code=None)
            return ok & expect(client, "a new one is taken", f"{LOGIN} {SHORT} && {{ {until_it_works(SHORT, 'touch open/late')}; }}")
    finally:
        for name in (scene.realm.service, SHORT):
            scene.realm.live(name, 86400)


def proxy_dies(scene, sec):
    with scene.client(sec, ONE) as client:
        outcome = []
        seconds = 6 * (KILLS + 1)
        with beside(lambda: outcome.append(client.run(writing(ONE, f"killed-{sec}", seconds)))):
            for _ in range(KILLS):
                time.sleep(6)
                scene.restart()
        code, said = outcome[0]
        return say(code == 0 and "wrote" in said, f"{sec}: a user writes on while the proxy is killed {KILLS} times", said[-500:])


@contextlib.contextmanager
def beside(run):
    """Beside the body; its end is waited for."""
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def locks(scene):
    """The kernel's client locks with AUTH_SYS whatever it mounts with, so exports that do not take that for files take it for locks."""
    if scene.known_failures:
        return True  # a peer has no rpc.statd beside it here
    ok = scene.exports_want(["krb5p"])
    with scene.client("krb5p", ONE, OTHER, locks=True) as client:
        ok &= expect(client, "krb5p alone: a user makes a file", f"{AS} {ONE} bash -c 'umask 0; touch open/locked'")
        ok &= expect(client, "krb5p alone: another has no lock that one has", f"{AS} {ONE} flock open/locked sleep 5 & "
                     f"sleep 2; {AS} {OTHER} flock -n open/locked true; code=$?; wait; (exit $code)", code=1)
        ok &= expect(client, "krb5p alone: and has it when it is free", f"{AS} {OTHER} flock open/locked echo locked", "locked")
    return ok & scene.exports_want(ALL)


def kdc_is_away(scene):
    with scene.client("krb5", ONE, OTHER) as client:
        ok = expect(client, "a user has a context", f"{AS} {ONE} touch open/before")
        scene.realm.stop()
        ok &= expect(client, "the KDC is away: that user goes on", f"{AS} {ONE} bash -c 'echo more > open/meanwhile && cat open/meanwhile'", "more")
        ok &= expect(client, "who has no context yet gets none", f"timeout 60 {AS} {OTHER} touch open/other", code=None)
        scene.realm.start()
        return ok & expect(client, "and has one when the KDC is back", until_it_works(OTHER, "touch open/other"))


CASES = {
    "krb5": lambda scene: by_kernel_client(scene, "krb5"),
    "krb5i": lambda scene: by_kernel_client(scene, "krb5i"),
    "krb5p": lambda scene: by_kernel_client(scene, "krb5p"),
    "attacks": attacks,
    "expiry": contexts_end,
    "kill": lambda scene: proxy_dies(scene, "krb5i") & proxy_dies(scene, "krb5p"),
    "kdc": kdc_is_away,
    "exports": lambda scene: all([exports_take(scene, words.split()) for words in ("krb5p", "krb5i krb5p", "sys krb5")]) & scene.exports_want(ALL),
    "choice": clients_choose,
    "locks": locks,
}


def run(scene, options):
    ok = True
    for name in options.only.split(",") if options.only else CASES:
        print(f"-- {name}", flush=True)
        try:
            ok &= CASES[name](scene)
        except (rpc.NoAnswer, rpc.Refused) as error:
            ok = say(False, name, repr(error))
    return ok


def kerberos(ensembles, options):
    ensembles.folder.chmod(0o711)  # servers are not root
    folder = ensembles.folder / "kerberos"
    folder.mkdir(exist_ok=True)
    realm = kerberos_realm.Realm(folder / "realm", None, "10.77.1.2", "10.77.0.1", users=USERS)
    realm.prepare()
    config = folder / "ensemble.toml"
    text = (targets.ROOT / "deploy/local/ensemble.toml").read_text()
    config.write_text(targets.with_lines(text, "[proxy]", f'kerberos_keytab = "{realm.keytab}"'))
    # Programs are started with the realm in their environment, those that a suite starts anew, too.
    # Confined as units have it: what MIT's library and the service of names do, they must be allowed.
    os.chown(realm.keytab, targets.ensemble.UNPRIVILEGED, -1)
    with realm.environment(), ensembles.make("kerberos", config=config, directories=2, unprivileged=True) as target:
        realm.netns = target.netns
        with realm.serving():
            scene = SliceScene(target, realm)
            ok = scene.exports_want(ALL) & run(scene, options)
            done = target.slicectl("fsck", check=False)
            return ok & say(done.returncode == 0, "fsck finds nothing", done.stdout[-500:])


def kerberos_of_peer(_, options):
    with kerberos_peer.KerberosPeer(ALL, users=USERS) as target:
        return run(PeerScene(target, target.realm), options)
