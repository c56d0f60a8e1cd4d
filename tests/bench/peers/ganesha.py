#!/usr/bin/env python3
"""NFS-Ganesha: a known NFSv3 server to hold our tests and figures against. The folder must lie on ext4 or xfs for conformance: on
tmpfs this version's READDIR loops."""

import pathlib

import peer

CONFIG = """
NFS_CORE_PARAM {{
    Protocols = 3;
    Enable_UDP = true;
    NFS_Port = 2049;
    MNT_Port = 20048;
    NLM_Port = 32803;
    Enable_RQUOTA = false;
    mount_path_pseudo = true;
}}
EXPORT_DEFAULTS {{ Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Transports = TCP, UDP; Protocols = 3; }}
EXPORT {{
    Export_Id = 1;
    Path = {folder};
    Pseudo = /volume;
    MaxRead = 1048576; MaxWrite = 1048576; PrefRead = 1048576; PrefWrite = 1048576;
    FSAL {{ Name = VFS; fsid_type = Dev; }}
}}
NFSv4 {{ Graceless = true; }}
LOG {{ Default_Log_Level = EVENT; }}
"""


class Ganesha(peer.Peer):
    """One Ganesha process with its rpcbind."""

    TITLE, LETTER = "Ganesha", "g"

    def __init__(self, folder, *, cpus=None):
        super().__init__(folder, "/volume", cpus=cpus)
        self.pid = None

    def script(self):
        (self.work / "ganesha.conf").write_text(CONFIG.format(folder=self.folder))
        ganesha = f"ganesha.nfsd -F -L {self.work}/ganesha.log -f {self.work}/ganesha.conf -p /run/ganesha.pid"
        # Ganesha reads /etc/mtab, which a minimal Debian lacks.
        mtab = ("{ test -e /etc/mtab || { mkdir -p /run/etc/upper /run/etc/work && "
                "mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work /etc && "
                "ln -s /proc/self/mounts /etc/mtab; }; }")
        return f"mkdir -p /run/ganesha /var/lib/nfs/ganesha && {mtab} && {ganesha}"

    def started(self):
        if "No export entries found" in self.log():
            raise RuntimeError(f"Ganesha exports nothing: {self.log()}")
        self.pid = self._find_pid()

    def pids(self):
        return {"ganesha": self.pid}

    def _find_pid(self):
        wanted = str(self.work / "ganesha.conf").encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"ganesha.nfsd") and wanted in words:
                return int(entry.name)
        raise RuntimeError("Ganesha's process is not there")

    def kill(self):
        super().kill()
        self.pid = None


class GaneshaDirsync(Ganesha):
    """Another one beside it; its folder lies on a file system that is mounted dirsync."""

    TITLE, LETTER = "Ganesha on dirsync", "d"


if __name__ == "__main__":
    peer.main(Ganesha)
