"""A disk of a run's own: a file system in a file, on a loop device, taken away at the end. On tmpfs, where suites run else, servers write and
sync at once, on their loop's thread; on a disk that is done by threads and io_uring, and syncs reach a device."""

import pathlib
import re
import shutil
import subprocess

SIZE = 16 << 30  # of the sparse file: what is written is what it takes


def slow_syncs(programs, pattern, milliseconds):
    """The environment of processes whose syncs of files that fit the pattern take so much longer (skip_fsync.cc)."""
    return {"LD_PRELOAD": str(programs / "skip_fsync.so"), "SLICE_SLOW_FSYNC": pattern, "SLICE_SLOW_FSYNC_MS": str(milliseconds)}


class Disk:
    """Entered, `folder` is a mounted file system that nobody else uses. What a killed run of this name left goes first. `options`: of
    mount(8), by comma."""

    def __init__(self, kind, name, options=""):
        self.kind, self.options = kind, options
        self.image = pathlib.Path(f"/var/tmp/slice-disk-{name}.img")
        self.folder = self.image.with_suffix("")

    def __enter__(self):
        self.remove()
        self.folder.mkdir()
        try:
            with open(self.image, "wb") as file:
                file.truncate(SIZE)
            subprocess.run([f"mkfs.{self.kind}", "-q", self.image], check=True)
            subprocess.run(["mount", "-o", f"loop,{self.options}", self.image, self.folder], check=True)
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def device(self):
        done = subprocess.run(["findmnt", "-no", "SOURCE,FSTYPE", self.folder], check=True, capture_output=True, text=True)
        source, kind = done.stdout.split()
        if kind != self.kind:
            raise SystemExit(f"{self.folder} is {kind}, not {self.kind}")
        return source

    def flushes(self):
        """How often the device was told to make durable what it was given: fsyncs that came through."""
        name = re.fullmatch(r"/dev/(\w+)", self.device()).group(1)
        return int(pathlib.Path(f"/sys/block/{name}/stat").read_text().split()[15])

    def remove(self):
        # Lazily: what a killed run left may still be used by its processes. The loop device goes with the last user.
        while subprocess.run(["mountpoint", "-q", self.folder]).returncode == 0:
            subprocess.run(["umount", "--lazy", self.folder], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.image.unlink(missing_ok=True)
