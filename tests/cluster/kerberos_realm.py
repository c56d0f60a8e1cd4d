"""A Kerberos realm of its own for tests (MIT's krb5kdc), and kernel clients in it. Everything lies in one folder, and nothing asks a name server: programs
find the realm by KRB5_CONFIG, and guests know the service's host by /etc/hosts."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import time

import uml

REALM = "SLICE.TEST"
SERVICE, CLIENT = "files.slice.test", "client1.slice.test"
MODULES = ("hmac", "cbc", "cts", "rpcsec_gss_krb5")
SHOWN = "/run/slice/kerberos"  # in a guest: what Realm.client_folder has
GSSD_LOG = "/run/gssd.log"

# A context that an acceptor has lasts for the ticket's life and the clock skew; five minutes, as by default, would be long for a test.
KRB5_CONF = """[libdefaults]
    default_realm = {realm}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    dns_uri_lookup = false
    rdns = false
    clockskew = {skew}
    udp_preference_limit = 1400
    ignore_acceptor_hostname = true
[realms]
    {realm} = {{
        kdc = {address}:88
    }}
[domain_realm]
    .slice.test = {realm}
"""

KDC_CONF = """[kdcdefaults]
    kdc_listen = {address}:88
    kdc_tcp_listen = {address}:88
[realms]
    {realm} = {{
        database_name = {folder}/principals
        key_stash_file = {folder}/stash
        acl_file = {folder}/no-administrators
        max_life = 1d
        supported_enctypes = {enctypes}
    }}
[logging]
    kdc = FILE:{folder}/kdc.log
"""

# What a guest does before it mounts. rpc.gssd is there when it has begun to watch for the kernel's pipes. A user's tickets lie where it looks for them.
PREPARE = r"""
mount --bind /dev/null /etc/resolv.conf
mount --bind @SHOWN@/hosts /etc/hosts
hostname @CLIENT@
export KRB5_CONFIG=@SHOWN@/krb5.conf
mkdir -p /run/rpc_pipefs
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
(rpc.gssd -f -vvv -p /run/rpc_pipefs -k @SHOWN@/machine.keytab > @LOG@ 2>&1 &)
for try in $(seq 50); do grep -qs . @LOG@ && break; sleep 0.1; done
for user in @LOGGED_IN@; do @SHOWN@/login $user; done
"""

# In a guest: `login USER [PRINCIPAL]` gets the user a ticket, as after a password; `as USER COMMAND...` runs it with the user's rights, and `logout USER`.
TOOLS = {
    "login": "#!/bin/sh\nexec @SHOWN@/as $1 kinit -k -t @SHOWN@/users.keytab -c /tmp/krb5cc_$(id -u $1) ${2:-$1}\n",
    "logout": "#!/bin/sh\nexec @SHOWN@/as $1 kdestroy -q -c /tmp/krb5cc_$(id -u $1)\n",
    "as": "#!/bin/sh\nuser=$1; shift\nexec setpriv --reuid $user --regid $(id -g $user) --init-groups \"$@\"\n",
}


def missing():
    """Why there can be no realm here; None where there can."""
    programs = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "rpc.gssd")
    absent = [name for name in programs if not shutil.which(name)]
    return f"{', '.join(absent)} missing: apt-get install krb5-kdc krb5-admin-server krb5-user nfs-common" if absent else None


class Realm:
    """prepare() makes the files, which are there before a service is started; within serving() krb5kdc serves in the namespace, at `address`, one
    of its own that clients reach. `server` is where the service's name leads.

    users: accounts of this host that have principals."""

    ENCTYPES = "aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal"

    def __init__(self, folder, netns, address, server, *, users=(), skew=3, enctypes=ENCTYPES):
        if why := missing():
            raise uml.UmlError(why)
        self.folder, self.netns, self.address, self.server = pathlib.Path(folder), netns, address, server
        self.client_folder = self.folder / "client"
        self.service = f"nfs/{SERVICE}"
        self.keytab = self.folder / "service.keytab"
        self.users, self.skew, self.enctypes = list(users), skew, enctypes
        self.process = None

    # --- programs of the realm --------------------------------------------------------

    @property
    def variables(self):
        """What finds the realm, in the environment of a program: an acceptor's keytab too."""
        return {"KRB5_CONFIG": str(self.client_folder / "krb5.conf"), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"), "KRB5_KTNAME": str(self.keytab)}

    @contextlib.contextmanager
    def environment(self, **more):
        """Programs that are started meanwhile find the realm."""
        before = dict(os.environ)
        os.environ |= self.variables | more
        try:
            yield
        finally:
            os.environ.clear()
            os.environ |= before

    def run(self, *command, text=None):
        done = subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True, env={**os.environ, **self.variables})
        if done.returncode != 0:
            raise uml.UmlError(f"{command[0]}: {done.stderr.strip()}")
        return done.stdout + done.stderr

    def admin(self, *lines):
        """What kadmin.local is told, line by line; of what it says, complaints raise."""
        said = self.run("kadmin.local", "-r", REALM, text="".join(f"{line}\n" for line in lines))
        if wrong := [line for line in said.splitlines() if " while " in line or "ktadd:" in line.split(" ")[0]]:
            raise uml.UmlError(f"kadmin.local: {wrong[0]}")
        return said

    def prepare(self):
        """The files: principals and keys."""
        self.client_folder.mkdir(parents=True)
        words = {"realm": REALM, "address": self.address, "folder": self.folder, "skew": self.skew, "enctypes": self.enctypes}
        (self.folder / "kdc.conf").write_text(KDC_CONF.format(**words))
        (self.client_folder / "krb5.conf").write_text(KRB5_CONF.format(**words))
        (self.client_folder / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {CLIENT}\n{self.server} {SERVICE}\n")
        for name, text in TOOLS.items():
            path = self.client_folder / name
            path.write_text(text.replace("@SHOWN@", SHOWN))
            path.chmod(0o755)
        self.run("kdb5_util", "create", "-r", REALM, "-s", "-P", "of this test alone")
        machine = [f"host/{CLIENT}", f"nfs/{CLIENT}"]
        lines = []
        for name, file in [(self.service, self.keytab), *((name, self.client_folder / "machine.keytab") for name in machine),
                           *((name, self.client_folder / "users.keytab") for name in self.users)]:
            lines += [f"addprinc -randkey {name}", f"ktadd -q -norandkey -k {file} {name}"]
        self.admin(*lines)
        if self.users:
            (self.client_folder / "users.keytab").chmod(0o644)  # each user logs in by it, under rights of his own

    def live(self, principal, seconds):
        """Tickets of this user, or for this service whoever has them, end after so many seconds from now on."""
        self.admin(f'modprinc -maxlife "{seconds} seconds" {principal}')

    def start(self):
        """krb5kdc, which answers when this returns."""
        command = uml.in_netns(self.netns, "krb5kdc", "-n", "-r", REALM)
        with open(self.folder / "kdc.out", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.variables},
                                            preexec_fn=uml.die_with_parent)
        probe = ["python3", "-c", f"import socket; socket.create_connection(('{self.address}', 88), 1)"]
        end = time.monotonic() + 20
        while subprocess.run(uml.in_netns(self.netns, *probe), capture_output=True).returncode != 0:
            if time.monotonic() > end or self.process.poll() is not None:
                raise uml.UmlError(f"krb5kdc does not serve: {(self.folder / 'kdc.out').read_text()[-500:]}")
            time.sleep(0.1)

    @contextlib.contextmanager
    def serving(self):
        """The KDC of files that prepare() made before there was a namespace for it."""
        try:
            self.start()
            yield self
        finally:
            self.stop()

    def stop(self):
        """The KDC is away; start() brings it back, with all that it knew."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def log(self):
        path = self.folder / "kdc.log"
        return path.read_text() if path.exists() else ""

    # --- users outside guests ---------------------------------------------------------

    def ticket(self, user):
        """Variables of a program that is to be this user: a cache of tickets, freshly got in the realm's namespace, with one
        for the service, so that it need not ask the KDC."""
        cache = self.folder / f"cache-{user.replace('/', '-')}"
        keytab = self.client_folder / ("users.keytab" if user in self.users else "machine.keytab")
        self.run(*uml.in_netns(self.netns, "kinit", "-k", "-t", str(keytab), "-c", str(cache), user))
        self.run(*uml.in_netns(self.netns, "kvno", "-q", "-c", str(cache), self.service))
        return {**self.variables, "KRB5CCNAME": f"FILE:{cache}"}

    # --- kernel clients ---------------------------------------------------------------

    def guest(self, target, command, *, sec=None, logged_in=(), options="", shares=None, **settings):
        """A kernel client of the realm, as target.client() gives one, which mounts the service by name; sec None leaves it to the client which
        flavor it takes. The users logged in have tickets before it mounts."""
        prepare = PREPARE
        for word, text in (("@SHOWN@", SHOWN), ("@CLIENT@", CLIENT), ("@LOG@", GSSD_LOG), ("@LOGGED_IN@", " ".join(logged_in))):
            prepare = prepare.replace(word, text)
        options = ",".join(filter(None, [f"sec={sec}" if sec else "", options]))
        return target.client([str(word) for word in command], options=options, shares={**(shares or {}), "kerberos": self.client_folder},
                             modules=MODULES, before=prepare, name=SERVICE, **settings)


