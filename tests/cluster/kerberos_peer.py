"""NFS-Ganesha with Kerberos, to hold the suite `kerberos` against: as targets.Peer, with a realm of its own."""

import pathlib
import shutil
import tempfile

import kerberos_realm
import targets

EXPORT = "/volume"
KRB5 = """
NFS_KRB5 {{ PrincipalName = nfs; KeytabPath = {keytab}; CCacheDir = {work}; Active_krb5 = true; }}
"""
# Ganesha takes the machine's principal for root whatever is written here.
IDMAPD = """[General]
Domain = slice.test
Local-Realms = {realm}
[Mapping]
Nobody-User = nobody
Nobody-Group = nogroup
[Translation]
Method = nsswitch
"""


class Ganesha(targets.ganesha.Ganesha):
    def __init__(self, folder, realm, flavors):
        super().__init__(folder)
        self.realm, self.flavors = realm, flavors

    def script(self):
        command = super().script()
        config = self.work / "ganesha.conf"
        (self.work / "idmapd.conf").write_text(IDMAPD.format(realm=kerberos_realm.REALM))
        text = config.read_text().replace("SecType = sys", f"SecType = {', '.join(self.flavors)}")
        text = text.replace("Graceless = true;", f"Graceless = true; IdmapConf = {self.work}/idmapd.conf;")
        config.write_text(text + KRB5.format(keytab=self.realm.keytab, work=self.work))
        return command


class KerberosPeer(targets.Peer):
    """A context; its realm is `realm`. flavors: what the export takes. folder: what is exported, one of its own where none is named."""

    name = "ganesha with Kerberos"

    def __init__(self, flavors=("sys", "krb5", "krb5i", "krb5p"), folder=None, **realm):
        super().__init__(folder)
        self.flavors, self.settings = flavors, realm
        self.private = pathlib.Path(tempfile.mkdtemp(prefix="slice-krb-peer-"))

    def __enter__(self):
        self.realm = kerberos_realm.Realm(self.private / "realm", None, targets.ganesha.Ganesha.CLIENT, targets.ganesha.Ganesha.SERVER, **self.settings)
        try:
            self.realm.prepare()
            self.peer = Ganesha(self.folder, self.realm, self.flavors)
            with self.realm.environment():
                self.peer.__enter__()
            self.netns, self.server, self.export = self.peer.netns, self.peer.server, self.peer.export
            self.port, self.mount_port = self.peer.port, self.peer.mount_port
            self.realm.netns = self.netns
            self.realm.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.realm.stop()
        if hasattr(self, "peer"):
            super().__exit__()
        shutil.rmtree(self.private, ignore_errors=True)

    def start(self, _name):
        with self.realm.environment():
            self.peer.start()
