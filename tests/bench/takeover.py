#!/usr/bin/env python3
"""How long a client stands still when a server that keeps much is taken over by its standby (docs/failover.md): a directory server with a directory of
up to --names names, and a small-file server with up to --files files of 1 KiB.

    takeover.py [--json] [--names N] [--files N] [--rounds N] [--interval S] [--settle S] [--folder DIR]

Both have backing sets of two copies and a process on a second host that stands by. At every power of ten from 10,000 on the process that serves is killed,
--rounds times, while the client creates, looks up and removes names, or writes and reads files, --outstanding at once; then the other one's turn is. All
run on the same processors. `serves`: until the manager hears that the other one does. `slowest`: what the client waited for an operation at most. `store`:
what a copy of the server's set takes at a storage node."""

import pathlib
import statistics
import sys
import time

import bench
import switch

sys.path.insert(0, str(bench.ROOT / "tests/cluster"))
import standbys  # noqa: E402  (its folder is known only now)

SERVES_SECONDS, READY_SECONDS = 60, 120


def until(what, seconds):
    """What it comes to when it is anything, or None."""
    end = time.monotonic() + seconds
    while not (seen := what()):
        if time.monotonic() > end:
            return None
        time.sleep(0.05)
    return seen


class Pair:
    """A server's two processes."""

    def __init__(self, slice_, supervisor, name):
        self.slice, self.supervisor, self.name = slice_, supervisor, name

    def serving(self):
        return standbys.serving(self.slice, self.supervisor.hosts, self.name)

    def ready(self):
        return self.serving() is not None and standbys.stood_by(self.slice, self.name)

    def pid(self, process):
        return self.supervisor.hosts.pid(process)

    def kill(self):
        """Seconds until the other one serves; the one that was killed stands by then."""
        first, begun = self.serving(), time.monotonic()
        come_back = standbys.killed(self, first)
        if not until(lambda: self.serving() not in (None, first), SERVES_SECONDS):
            raise SystemExit(f"takeover: nobody takes {self.name} over")
        come_back()
        return time.monotonic() - begun


def stored_megabytes(slice_):
    """What the largest copy of a set takes at a storage node: there is one server that has much."""
    folders = pathlib.Path(slice_.facts["config"]).parent.rglob("backing/*/")
    return max(sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file()) for folder in folders) / 1e6


def measure(options, folder, work, most):
    """Of each step, its size and what was seen in each round."""
    with bench.ensemble(options, folder, directories=1, small_files=1, storage=2, backing=2, standbys=True) as slice_, standbys.Supervisor(slice_) as supervisor:
        pair = Pair(slice_, supervisor, slice_.servers("dir" if work == "names" else "small")[0])

        def one_round(size, _, end):
            if not until(pair.ready, READY_SECONDS):
                raise SystemExit(f"takeover: nobody stands by for {pair.name}")
            time.sleep(options.settle)
            killed = time.time() * 1e3
            serves = pair.kill()
            time.sleep(options.interval)
            slowest = max((slot[2] for slot in end() if slot[0] > killed), default=0) / 1e3
            store = stored_megabytes(slice_)
            bench.say(f"{size} {work}: serves after {serves:.2f} s, slowest {slowest:.2f} s, {store:.0f} MB")
            return {"serves": serves, "slowest": slowest, "store": store}

        return switch.each_step(options, slice_, work, most, one_round)


def main():
    parser = bench.arguments(__doc__, "/var/tmp")
    parser.add_argument("--names", type=int, default=1_000_000, help="of the directory at most; 0: none")
    parser.add_argument("--files", type=int, default=100_000, help="small files at most; 0: none")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--outstanding", type=int, default=4, help="calls of the client")
    parser.add_argument("--interval", type=float, default=5, help="seconds of work after another one serves")
    parser.add_argument("--settle", type=float, default=10, help="seconds of work before, in which the one that stands by fetches what is new")
    options = parser.parse_args()
    with bench.scratch(options) as folder:
        found = {work: measure(options, folder, work, most) for work, most in (("names", options.names), ("files", options.files)) if most}
    rows, figures = [["", "of", "store, MB", "serves, s", "at most", "slowest, s", "at most"]], []
    for work, each_size in found.items():
        for step in each_size:
            shown = {"store": ("MB", max(r["store"] for r in step["rounds"]))}
            for key in ("serves", "slowest"):
                values = [r[key] for r in step["rounds"]]
                shown |= {key: ("s", statistics.median(values)), f"{key}_at_most": ("s", max(values))}
            figures += [bench.figure(f"{key}_at_{step['size']}_{work}", unit, value) for key, (unit, value) in shown.items()]
            rows.append([step["size"], work, f"{shown['store'][1]:.0f}", *(f"{value:.2f}" for key, (_, value) in shown.items() if key != "store")])
    bench.finish(options, "takeover", figures, bench.table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
