"""Servers as hosts with a slow processor of their own: the cpu cgroup gives each process a share of one processor, so that many servers and
their clients fit on this machine, and servers are the limit however many there are."""

import os
import pathlib
import subprocess

PERIOD_US = 50_000
GROUPS = pathlib.Path("/sys/fs/cgroup")


class Shares:
    """A context: processes get shares for as long as it lasts. With cgroups of version 1 and 2."""

    def __init__(self, share):
        self.quota = max(1000, round(share * PERIOD_US))  # the kernel's least
        self.old = (GROUPS / "cpu").is_dir()
        self.base = (GROUPS / "cpu" if self.old else GROUPS) / f"slice-bench-{os.getpid()}"

    def __enter__(self):
        self.base.mkdir()
        if not self.old:
            for folder in (GROUPS, self.base):
                (folder / "cgroup.subtree_control").write_text("+cpu")
        return self

    def give(self, pids):
        """Its share to each of {name: process}, with all its threads."""
        for name, pid in pids.items():
            group = self.base / name
            group.mkdir(exist_ok=True)
            if self.old:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(self.quota))
            else:
                (group / "cpu.max").write_text(f"{self.quota} {PERIOD_US}")
            (group / "cgroup.procs").write_text(str(pid))

    def __exit__(self, *_):
        """Who is left in a group goes back to where all are."""
        for group in sorted(self.base.glob("*/")):
            for pid in (group / "cgroup.procs").read_text().split():
                subprocess.run(["sh", "-c", f"echo {pid} > {self.base.parent}/cgroup.procs"], stderr=subprocess.DEVNULL)
            group.rmdir()
        self.base.rmdir()
