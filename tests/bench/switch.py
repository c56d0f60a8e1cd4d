#!/usr/bin/env python3
"""How long requests are held when sites move to another server while a client works on them, over how much is there: a directory of up to
--names names, and up to --files files of 1 KiB.

    switch.py [--json] [--names N] [--files N] [--rounds N] [--outstanding N] [--interval S] [--limit RATE] [--folder DIR]

At every power of ten from 10,000 on the sites go to the other server and back, --rounds times in all: the directory's site, or all
small-file sites, since a hash says on which one a file is. The client creates, looks up and removes names, or writes and reads files,
--outstanding at once, as fast as they are answered; all run on the same processors. `pause` is what `slicectl moves` says of the last
attempt to switch, `slowest` what the client waited for an operation at most, from when the move begins until it has ended."""

import contextlib
import json
import statistics
import subprocess
import sys
import time

import bench
import uml

SMALLEST = 10_000
CLASSES = {"names": "directory", "files": "small-file"}
ALL_SITES = "0-63"  # of the local ensemble
POLL, PATIENCE = 0.1, 900  # seconds, of a move


def steps(most):
    """Powers of ten, and the most."""
    sizes = [min(SMALLEST, most)]
    while sizes[-1] < most:
        sizes.append(min(sizes[-1] * 10, most))
    return sizes


class Client:
    """switch_bench: it works between begin() and end()."""

    def __init__(self, options, slice_, work, sizes):
        command = uml.in_netns(slice_.netns, str(options.build / "bench/switch_bench"), "--server", slice_.server, "--work", work,
                               "--steps", ",".join(map(str, sizes)), "--outstanding", str(options.outstanding))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _said(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("switch: the client failed")
        return json.loads(line)

    def begin(self):
        """The directory site that it works on; it has filled its directory."""
        return self._said()["site"]

    def end(self, then):
        """What was done, as switch_bench says it; then "again" or "next"."""
        with contextlib.suppress(BrokenPipeError):  # it says why, and that it has ended
            self.process.stdin.write(then + "\n")
            self.process.stdin.flush()
        return self._said()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def moves(slice_):
    return json.loads(slice_.slicectl("moves", "--json").stdout)["moves"]


def move(slice_, site_class, sites, to):
    """The move as it was listed last, once it is done, with how long it copied."""
    known = {each["move"] for each in moves(slice_)}
    slice_.slicectl("site", "move", site_class, sites, to)
    end, copying, seen = time.monotonic() + PATIENCE, 0.0, None
    while seen is None or seen["ended_ns"] is None:
        if time.monotonic() > end:
            raise SystemExit(f"switch: the move does not end: {seen}")
        time.sleep(POLL)
        if new := [each for each in moves(slice_) if each["move"] not in known]:
            seen = new[0]
            now = time.time()
            copying = now - seen["began_ns"] / 1e9 if seen["phase"] in ("preparing", "copying") else copying
    if seen["phase"] != "done":
        raise SystemExit(f"switch: the move ended otherwise: {seen}")
    return {**seen, "copy_seconds": copying}


def phases(slots, interval, moved):
    """Operations a second before, while and after the move, and the slowest of each, in milliseconds."""
    began, ended = moved["began_ns"] / 1e6, moved["ended_ns"] / 1e6
    bounds = {"before": (began - interval * 1e3, began), "while": (began, ended), "after": (ended, ended + interval * 1e3)}
    result = {}
    for name, (start, stop) in bounds.items():
        inside = [slot for slot in slots if start < slot[0] <= stop]
        result[name] = {"rate": sum(slot[1] for slot in inside) / (stop - start) * 1e3,
                        "slowest": max((slot[2] for slot in inside), default=0)}
    return result


def each_step(options, slice_, work, most, one_round):
    """Of each step, its size and what one_round(size, site, end) makes of each round, in which the client works until end(), which says what it did."""
    found = []
    with Client(options, slice_, work, steps(most)) as client:
        for size in steps(most):
            rounds = []
            for number in range(options.rounds):
                then = "again" if number + 1 < options.rounds else "next"
                rounds.append(one_round(size, client.begin(), lambda then=then: client.end(then)))
            found.append({"size": size, "rounds": rounds})
    return found


def measure(options, folder, work, most):
    """Of each step, its size and what was seen in each round."""
    site_class = CLASSES[work]
    with bench.ensemble(options, folder, directories=2, small_files=2, storage=1) as slice_:
        if options.limit is not None:
            slice_.slicectl("moves", "limit", options.limit)
        first, second = slice_.servers("dir") if work == "names" else slice_.servers("small")
        if work == "files":
            move(slice_, site_class, ALL_SITES, first)

        def one_round(size, site, end):
            owner = bench.owners(slice_, site_class)[site if work == "names" else 0]
            time.sleep(options.settle + options.interval)
            moved = move(slice_, site_class, str(site) if work == "names" else ALL_SITES, second if owner == first else first)
            time.sleep(options.interval)
            seen = phases(end(), options.interval, moved)
            bench.say(f"{size} {work}: {moved['pause_us'] / 1e3:.1f} ms, slowest {seen['while']['slowest']:.1f} ms, "
                      f"{moved['copied_bytes']} bytes, {moved['copy_seconds']:.1f} s")
            return {**moved, **seen}

        return each_step(options, slice_, work, most, one_round)


def main():
    parser = bench.arguments(__doc__, "/var/tmp")
    parser.add_argument("--names", type=int, default=1_000_000, help="of the directory at most; 0: none")
    parser.add_argument("--files", type=int, default=100_000, help="small files at most; 0: none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=4, help="calls of the client")
    parser.add_argument("--interval", type=float, default=3, help="seconds before and after each move")
    parser.add_argument("--settle", type=float, default=2, help="seconds of work before that")
    parser.add_argument("--limit", help="of `slicectl moves limit`, where it is to be another one than the usual")
    options = parser.parse_args()
    with bench.scratch(options) as folder:
        found = {work: measure(options, folder, work, most) for work, most in (("names", options.names), ("files", options.files)) if most}
    rows, figures = [["", "of", "MB", "copied in, s", "done in, s", "pause, ms", "at most", "slowest, ms", "at most", "slowest before",
                      "op/s before", "while", "after"]], []
    for work, each_size in found.items():
        for step in each_size:
            size, rounds = step["size"], step["rounds"]
            middle = lambda of: statistics.median(map(of, rounds))  # noqa: E731
            shown = {
                "bytes": ("B", middle(lambda r: r["copied_bytes"])),
                "copied_in": ("s", middle(lambda r: r["copy_seconds"])),
                "done_in": ("s", middle(lambda r: (r["ended_ns"] - r["began_ns"]) / 1e9)),
                "pause": ("ms", middle(lambda r: r["pause_us"] / 1e3)),
                "pause_at_most": ("ms", max(r["pause_us"] / 1e3 for r in rounds)),
                "slowest": ("ms", middle(lambda r: r["while"]["slowest"])),
                "slowest_at_most": ("ms", max(r["while"]["slowest"] for r in rounds)),
                "slowest_before": ("ms", middle(lambda r: r["before"]["slowest"])),
                **{f"rate_{when}": ("1/s", middle(lambda r, when=when: r[when]["rate"])) for when in ("before", "while", "after")}}
            figures += [bench.figure(f"{key}_at_{size}_{work}", unit, value) for key, (unit, value) in shown.items()]
            values = [value for _, value in shown.values()]
            rows.append([size, work, f"{values[0] / 1e6:.1f}", *(f"{value:.1f}" for value in values[1:8]),
                         *(f"{value:.0f}" for value in values[8:])])
        smallest, largest = each_size[0], each_size[-1]
        if smallest is not largest:
            pause = [statistics.median(r["pause_us"] for r in step["rounds"]) for step in (smallest, largest)]
            figures.append(bench.figure(f"pause_of_{largest['size']}_over_{smallest['size']}_{work}", "ratio", pause[1] / max(pause[0], 1)))
    bench.finish(options, "switch", figures, bench.table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
