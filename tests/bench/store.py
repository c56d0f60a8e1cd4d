#!/usr/bin/env python3
"""A storage node beside fio: READ and WRITE of 1 MiB over TCP straight to one slice-stored on a disk, and the same pattern by fio on
the same disk, in turns, in one run. The client runs on the node's own host, so that what is measured is the node: over the ensemble's
virtual links every 1500 bytes would pass the kernel three times, in the sender's time, which costs more than all the rest.

    store.py [--json] [--folder DIR] [--megabytes N] [--rounds N] [--outstanding N] [--record BYTES] [--only PATTERN,...]
             [--ganesha] [--fio-direct] [--page-cache]

Patterns: `write` (a new file in order) and `random-write` (every record of it once), unstable, the COMMIT at the end counted as fio's
end_fsync is; `read` and `random-read` with the page cache dropped before; `cached-read`, a second time, which fio has no part in.
fio keeps as many requests under way (io_uring) and promises the same: --direct=0, nothing durable before the end. Figures are medians of
the rounds: MB/s of both, their ratio, and seconds of processor time for each GiB, of the node (all its threads) and of fio.
--ganesha: NFS-Ganesha (VFS) on the same disk as well. --fio-direct: fio with --direct=1 as well. --page-cache: a node that reads
through the page cache alone as well (`direct_reads = false`)."""

import contextlib
import json
import mmap
import os
import statistics
import subprocess
import sys

import bench
import ganesha

PATTERNS = {"write": "write", "read": "read", "cached-read": None, "random-read": "randread", "random-write": "randwrite"}
SERVER = "store1"


def forget_pages():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3\n")


def touch_memory(megabytes):
    """Uses free memory once and gives it back. The host of a virtual machine may have taken what was free for a while: the first to
    use it again pays some microseconds a page, which would be the one that happens to be measured first."""
    size = megabytes << 20
    with mmap.mmap(-1, size) as memory:
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1


def prepare(options):
    forget_pages()
    touch_memory(2 * options.megabytes + 512)


class Fio:
    def __init__(self, options, folder, direct):
        self.options, self.folder, self.direct = options, folder / ("fio-direct" if direct else "fio"), direct
        self.folder.mkdir()

    def run(self, pattern):
        """MB per second, and seconds of processor time a GiB."""
        file, size = self.folder / "records", self.options.megabytes << 20
        if pattern == "write":
            file.unlink(missing_ok=True)
        prepare(self.options)
        done = subprocess.run(
            ["fio", "--name=records", f"--filename={file}", f"--rw={PATTERNS[pattern]}", f"--bs={self.options.record}", f"--size={size}",
             f"--direct={int(self.direct)}", "--ioengine=io_uring", f"--iodepth={self.options.outstanding}", "--fallocate=none",
             "--end_fsync=1", "--output-format=json"], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"fio: {done.stderr.strip()}")
        job = json.loads(done.stdout)["jobs"][0]
        moved = job["write" if pattern.endswith("write") else "read"]
        seconds = moved["runtime"] / 1e3
        if moved["io_bytes"] != size:
            raise SystemExit(f"fio moved {moved['io_bytes']} bytes of {size}")
        used = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3
        return size / seconds / 1e6, used * (1 << 30) / size


class Nfs:
    """A server that store_bench goes to."""

    def __init__(self, options, netns, pids, *words):
        self.options, self.netns, self.pids, self.words = options, netns, pids, words

    def run(self, pattern):
        prepare(self.options)
        if pattern == "cached-read":
            pattern = "read"
            self.load(pattern)
        return self.load(pattern)

    def load(self, pattern):
        command = bench.uml.in_netns(
            self.netns, str(self.options.build / "bench/store_bench"), pattern, "--json", *self.words,
            "--megabytes", str(self.options.megabytes), "--record", str(self.options.record),
            "--outstanding", str(self.options.outstanding), "--pids", ",".join(f"{name}={pid}" for name, pid in self.pids.items()))
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise SystemExit("store_bench failed")
        said = json.loads(done.stdout)
        used = sum(said["processor_seconds"].values())
        return said["MB_per_second"], used * (1 << 30) / said["bytes"]


def node(slice_, options):
    """The one storage node of an ensemble, which has every stripe."""
    address = slice_.facts["addresses"][SERVER]
    return Nfs(options, slice_.facts["hosts"][SERVER], {SERVER: slice_.pids()[SERVER]}, "--server", slice_.server, "--data-server", f"{address}:2049")


def by_page_cache(folder):
    """The local ensemble's template, with storage nodes that read through the page cache alone."""
    path = folder / "page-cache.toml"
    path.write_text((bench.ROOT / "deploy/local/ensemble.toml").read_text().replace('role = "storage"\n', 'role = "storage"\ndirect_reads = false\n'))
    return path


@contextlib.contextmanager
def contenders(options, folder):
    """What is measured, by name."""
    with contextlib.ExitStack() as stack:
        slice_ = stack.enter_context(bench.ensemble(options, folder, storage=1))
        all_ = {"node": node(slice_, options), "fio": Fio(options, folder, direct=False)}
        if options.page_cache:
            (folder / "page-cache").mkdir()
            other = bench.ensemble(options, folder / "page-cache", by_page_cache(folder), instance="pages", storage=1)
            all_["node_page_cache"] = node(stack.enter_context(other), options)
        if options.fio_direct:
            all_["fio_direct"] = Fio(options, folder, direct=True)
        if options.ganesha:
            peer = stack.enter_context(ganesha.Ganesha(folder / "ganesha"))
            all_["ganesha"] = Nfs(options, peer.server_netns, peer.pids(), "--server", peer.server, "--export", peer.export)
        yield all_


def measure(options, folder):
    """{(pattern, contender): [(MB/s, s/GiB), ...]}"""
    runs = {}
    with contenders(options, folder) as all_:
        if options.only[0] != "write":  # which makes the file that the others need
            for contender in all_.values():
                contender.run("write")
        for turn in range(options.rounds):
            for pattern in options.only:
                for name, contender in all_.items():
                    if name.startswith("fio") and PATTERNS[pattern] is None:
                        continue
                    one = contender.run(pattern)
                    runs.setdefault((pattern, name), []).append(one)
                    bench.say(f"round {turn + 1}: {pattern:12} {name:10} {one[0]:7.0f} MB/s {one[1]:6.3f} s/GiB")
    return runs


def report(options, runs):
    names = list(dict.fromkeys(name for _, name in runs))
    rows = [["1 MiB" if options.record == 1 << 20 else f"{options.record} bytes",
             *(title for name in names for title in (f"{name} MB/s", "s/GiB")), "node/fio"]]
    figures = []
    for pattern in options.only:
        row, rates = [pattern], {}
        for name in names:
            if (pattern, name) not in runs:
                row += ["-", "-"]
                continue
            rate, used = (statistics.median(values) for values in zip(*runs[pattern, name]))
            rates[name] = rate
            row += [f"{rate:.0f}", f"{used:.3f}"]
            label = f"{name}_{pattern.replace('-', '_')}"
            figures += [bench.figure(label, "MB/s", rate), bench.figure(f"{label}_cpu", "s/GiB", used)]
        ratio = rates["node"] / rates["fio"] if "fio" in rates else None
        if ratio is not None:
            figures.append(bench.figure(f"node_over_fio_{pattern.replace('-', '_')}", "ratio", ratio))
        rows.append([*row, "-" if ratio is None else f"{ratio:.2f}"])
    bench.finish(options, "store", figures, bench.table(rows))


def main():
    parser = bench.arguments(__doc__, folder="/var/tmp")
    parser.add_argument("--megabytes", type=int, default=2048, help="of the file")
    parser.add_argument("--record", type=int, default=1 << 20, help="bytes of a request")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=16)
    parser.add_argument("--only", default=",".join(PATTERNS), help="patterns, by comma")
    parser.add_argument("--ganesha", action="store_true")
    parser.add_argument("--fio-direct", action="store_true")
    parser.add_argument("--page-cache", action="store_true")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(PATTERNS):
        parser.error(f"no such pattern: {', '.join(unknown)}")
    with bench.scratch(options) as folder:
        runs = measure(options, folder)
    report(options, runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
