#!/usr/bin/env python3
"""The kernel's own NFS server, where this kernel has one: nfsd, exporting a folder `sync`, as it does by default."""

import pathlib
import shutil
import subprocess
import time

import peer

THREADS = 8  # the default of rpc.nfsd in Debian


def missing():
    """Why it cannot run here; None where it can."""
    if not shutil.which("rpc.nfsd"):
        return "rpc.nfsd is missing: apt-get install nfs-kernel-server"
    if subprocess.run(["modprobe", "-q", "nfsd"], check=False).returncode != 0 and "nodev\tnfsd\n" not in pathlib.Path("/proc/filesystems").read_text():
        return "this kernel has no nfsd"
    return None


class KernelServer(peer.Peer):
    """nfsd's threads, rpc.mountd and rpcbind."""

    TITLE, LETTER = "the kernel's NFS server", "k"

    def __init__(self, folder, *, cpus=None):
        super().__init__(folder, str(pathlib.Path(folder).resolve()), cpus=cpus)
        self.others, self.threads = set(), []

    def script(self):
        if why := missing():
            raise RuntimeError(f"{self.TITLE}: {why}")
        self.others = self._threads()
        # Debian's /etc/nfs.conf has mountd look groups up by itself, which leaves a client's own without effect.
        return ("mount --bind /dev/null /etc/nfs.conf && mount -t nfsd nfsd /proc/fs/nfsd && touch /var/lib/nfs/etab /var/lib/nfs/rmtab && "
                f"exportfs -o rw,sync,no_root_squash,no_subtree_check,insecure,fsid=1 '*:{self.folder}' && "
                f"rpc.nfsd --no-nfs-version 4 --tcp --udp {THREADS} && rpc.mountd --foreground --port 20048 --no-nfs-version 4")

    def started(self):
        deadline = time.monotonic() + 10  # the port is opened first
        while len(self.threads) < THREADS:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.TITLE}: {len(self.threads)} of {THREADS} threads: {self.log()}")
            time.sleep(0.1)
            self.threads = sorted(self._threads() - self.others)

    def pids(self):
        return {f"nfsd{number}": pid for number, pid in enumerate(self.threads)}

    @staticmethod
    def _threads():
        found = set()
        for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
            try:
                if comm.read_text() == "nfsd\n":
                    found.add(int(comm.parent.name))
            except OSError:
                continue
        return found

    def kill(self):
        """What runs in the kernel outlives its processes: it is told to end, in the network namespace that it serves."""
        if self.processes:
            end = "mount -t nfsd nfsd /proc/fs/nfsd && rpc.nfsd 0"
            subprocess.run(self.in_server("unshare", "--mount", "sh", "-c", end), check=False, capture_output=True)
        super().kill()
        self.threads = []


if __name__ == "__main__":
    peer.main(KernelServer)
