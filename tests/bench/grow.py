#!/usr/bin/env python3
"""Storage nodes are added while clients read and write all that the nodes carry: 3 become 4, and then 8.

    grow.py [--json] [--nodes N,N,...] [--rate MBIT] [--clients N] [--outstanding N] [--megabytes N] [--seconds N] [--limit RATE]
            [--pictures DIR] [--folder DIR]

The links of all storage nodes are throttled as table2's are. Each client has two files of --megabytes: it reads one and checks every byte
while it writes the other anew, 1 MiB at a time over TCP through the proxy, and then the other way round. All clients together have
--outstanding READs under way for each node that has its share, and as many WRITEs. A step: new nodes are added, `slicectl rebalance --class
storage`, and all goes on until --seconds after the last move has ended. --limit is told to `slicectl moves limit`; without it the
ensemble's own holds.

`moved / 1/N`: bytes that the moves copied over all bytes, over the share that the new nodes are due. `slowest`: the operation (READ, WRITE,
COMMIT) that took longest of those that ended before the step, were under way while sites moved, or began after that; `held`: for how long
requests waited at a switch, at most. `over linear`: the bandwidth after the step over that of the first nodes times the number of nodes
now. `even`: the part of all nodes' bandwidth that is left when all bytes are wanted alike and the fullest node is at its limit. `machine`:
how busy this machine's processors were, whoever used them: where it comes near 1, figures are the machine's. --pictures draws the bandwidth
over time, grow.svg, and keeps what was measured, grow.json."""

import json
import pathlib
import subprocess
import sys
import time

import bench
import table2

OPERATION = "read_write_1m"
MIB = 1 << 20
LIMIT_OF_MOVES = 64 << 20  # where nobody sets one (docs/moves.md)
SETTLES = 3  # seconds in which what is sent and waited for comes to be that of the nodes that are there now
POLLS = 0.5  # seconds
MOVES_SECONDS = 600  # at most, for those of a step
GOAL_SLOWEST, GOAL_LINEAR = 1, 0.95
PICTURE, KEPT = "grow.svg", "grow.json"


class Step:
    """From some nodes to more. Times are of the monotonic clock."""

    def __init__(self, before, nodes):
        self.before, self.nodes = before, nodes
        self.added = self.began = self.ended = 0.0
        self.moves, self.stored = [], {}


class Run:
    """An ensemble under load that grows."""

    def __init__(self, options, slice_, clients):
        self.options, self.slice, self.clients = options, slice_, clients
        self.copied = []  # (time, bytes that all moves have copied until then)
        self.known = {}  # moves, as they were listed last
        self.ticks = []  # (time, of this machine's processors, of these idle)

    def going(self):
        listed = json.loads(self.slice.slicectl("moves", "--json").stdout)["moves"]
        self.known.update({move["move"]: move for move in listed})
        self.copied.append((time.monotonic(), sum(move["copied_bytes"] for move in self.known.values())))
        return [move for move in listed if move["ended_ns"] is None]

    def wait(self, seconds):
        """Meanwhile sees to it that all clients work, and how busy the machine is."""
        end = time.monotonic() + seconds
        self.look()
        while (left := end - time.monotonic()) > 0:
            if any(process.poll() is not None for process in self.clients.processes):
                raise SystemExit("a client ended")
            time.sleep(min(left, POLLS))
            self.look()

    def look(self):
        self.ticks.append((time.monotonic(), *bench.processor_ticks()))

    def take(self, step):
        """Adds nodes, and waits until they have their share."""
        step.added = time.monotonic()
        for number in range(step.before + 1, step.nodes + 1):
            name = self.slice.add_storage_node(number)
            table2.throttle(self.slice, self.options.rate, [name])
        self.slice.wait_serving()
        self.wait(POLLS)
        earlier = set(self.known)
        self.going()
        step.began = time.monotonic()
        self.slice.slicectl("rebalance", "--class", "storage")
        while self.going():
            if time.monotonic() > step.began + MOVES_SECONDS:
                raise SystemExit(f"moves do not end: {self.slice.slicectl('moves').stdout}")
            self.wait(POLLS)
        step.ended = time.monotonic()
        self.clients.tell(f"outstanding {calls}" for calls in outstanding(self.options, step.nodes))
        step.moves = [move for number, move in self.known.items() if number not in earlier]
        self.wait(SETTLES + self.options.seconds)
        step.stored = stored(self.slice)
        bench.say(f"{step.before} -> {step.nodes} nodes: {len(step.moves)} moves of {sum(len(move['sites']) for move in step.moves)} sites, "
                  f"{sum(move['copied_bytes'] for move in step.moves) / 1e6:.0f} MB in {step.ended - step.began:.1f} s")


def outstanding(options, nodes):
    """What each client has under way where that many nodes have their share: as many READs as WRITEs, one of each at least; their sum."""
    calls, clients = options.outstanding * nodes, options.clients
    return [2 * max(1, (calls + number) // clients) for number in range(clients)]


def stored(slice_):
    """Bytes of objects on each storage node's disk."""
    data = pathlib.Path(slice_.facts["config"]).parent / "data"
    return {name: sum(path.stat().st_blocks * 512 for path in (data / name / "objects").rglob("*") if path.is_file())
            for name in slice_.servers("store")}


def measure(options, folder):
    """Times, steps, and the operations of all clients."""
    first, *more = options.nodes
    with bench.ensemble(options, folder, storage=first) as slice_, \
            bench.Clients(options, slice_, outstanding(options, first), "--only", OPERATION, "--trace", "--megabytes", options.megabytes,
                          "--seconds", 24 * 3600) as clients:
        clients.ready()  # their files are there: written at the machine's speed
        table2.throttle(slice_, options.rate)
        if options.limit is not None:
            slice_.slicectl("moves", "limit", options.limit)
        run = Run(options, slice_, clients)
        limit = json.loads(slice_.slicectl("moves", "--json").stdout)["limit_bytes_per_second"]
        start = time.monotonic()
        clients.tell([""] * options.clients)
        run.wait(SETTLES + options.seconds)
        before = stored(slice_)
        steps = []
        for nodes in more:
            steps.append(Step(steps[-1].nodes if steps else first, nodes))
            run.take(steps[-1])
        end = time.monotonic()
        clients.tell(["end"] * options.clients)
        said = [one[OPERATION] for one in clients.said()]
    return {"rate": options.rate, "limit": limit, "clients": options.clients, "bytes": 2 * options.clients * options.megabytes * MIB,
            "start": start, "end": end, "nodes": first, "stored": before, "steps": [vars(step) for step in steps],
            "copied": run.copied, "ticks": run.ticks,
            "asked_again": sum(one["asked_again"] for one in said), "operations": [each for one in said for each in one["trace"]]}


def bandwidth(operations, begin, end, what=None):
    """MB/s between two times; an operation's bytes count as if they came evenly from its beginning to its end."""
    total = sum(size * (min(end, ended) - max(begin, began)) / (ended - began) for began, ended, size, which in operations
                if began < end and ended > begin and what in (None, which))
    return total / (end - begin) / 1e6


def machine(ticks, begin, end):
    """The part of this machine's processors that was used between two times."""
    within = [each for each in ticks if begin - POLLS <= each[0] <= end + POLLS]
    (_, first, first_idle), (_, last, last_idle) = within[0], within[-1]
    return 1 - (last_idle - first_idle) / max(last - first, 1)


def phases(taken):
    """Of each: its name, nodes, when it is measured, and its operations: those that were under way while sites moved are those of the move,
    whenever they began or ended."""
    steps, operations = taken["steps"], taken["operations"]
    first = steps[0]
    found = [{"name": f"{taken['nodes']} nodes", "nodes": taken["nodes"], "begin": taken["start"] + SETTLES, "end": first["added"],
              "operations": [each for each in operations if each[1] < first["began"]]}]
    for step, following in zip(steps, [*(each["began"] for each in steps[1:]), taken["end"]]):
        found.append({"name": f"{step['before']} -> {step['nodes']}", "nodes": step["before"], "begin": step["began"], "end": step["ended"],
                      "operations": [each for each in operations if each[0] <= step["ended"] and each[1] >= step["began"]]})
        found.append({"name": f"{step['nodes']} nodes", "nodes": step["nodes"], "begin": step["ended"] + SETTLES,
                      "end": following if step is steps[-1] else steps[steps.index(step) + 1]["added"],
                      "operations": [each for each in operations if each[0] > step["ended"] and each[1] < following]})
    for phase in found:
        for what in (None, "read", "write"):
            phase[what or "both"] = bandwidth(taken["operations"], phase["begin"], phase["end"], what)
        phase["machine"] = machine(taken["ticks"], phase["begin"], phase["end"])
        times = sorted((ended - began, which) for began, ended, _, which in phase["operations"])
        phase["slowest"], phase["slowest_is"] = times[-1] if times else (0, "-")
        phase["calls"], phase["slow"] = len(times), sum(took > GOAL_SLOWEST for took, _ in times)
        phase["p99"], phase["median"] = (times[int(len(times) * part)][0] if times else 0 for part in (0.99, 0.5))
    return found


def evenness(shares):
    """What part of all nodes' bandwidth can be used when each gives bytes as it has them: until the fullest is at its limit."""
    return sum(shares.values()) / len(shares) / max(shares.values())


def results(taken):
    """The figures, and the table for people."""
    found = phases(taken)
    first, link = found[0], taken["rate"] / 8
    rows = [["", "MB/s", "read", "write", "of nodes", "machine", "over linear", "even", "slowest, s", "of", f"> {GOAL_SLOWEST} s", "p99, s", "median, s",
             "moved MB", "seconds", "moved / 1/N", "held, ms"]]
    figures = [bench.figure("limit", "B/s", taken["limit"]), bench.figure("asked_again", "calls", taken["asked_again"])]
    stored_at = {taken["nodes"]: taken["stored"], **{step["nodes"]: step["stored"] for step in taken["steps"]}}
    for number, phase in enumerate(found):
        step = taken["steps"][(number - 1) // 2] if number else None
        moving = number % 2 == 1
        name = f"{step['before']}_to_{step['nodes']}" if moving else f"{phase['nodes']}_nodes"
        row = [phase["name"], *(f"{phase[each]:.1f}" for each in ("both", "read", "write")), f"{phase['both'] / (2 * phase['nodes'] * link):.2f}",
               f"{phase['machine']:.2f}"]
        figures += [bench.figure(f"{name}_{each}", "MB/s", phase[each]) for each in ("both", "read", "write")]
        figures += [bench.figure(f"{name}_{each}", "s", phase[each]) for each in ("slowest", "p99", "median")]
        figures += [bench.figure(f"{name}_machine", "share", phase["machine"]),
                    bench.figure(f"{name}_slower_than_{GOAL_SLOWEST}_s", "share", phase["slow"] / max(phase["calls"], 1))]
        if moving:
            row += [f"{phase['both'] / first['both'] * first['nodes'] / phase['nodes']:.2f}", "-"]
        else:
            linear, even = phase["both"] / first["both"] * first["nodes"] / phase["nodes"], evenness(stored_at[phase["nodes"]])
            row += [f"{linear:.3f}", f"{even:.2f}"]
            figures.append(bench.figure(f"{name}_even", "share", even))
            if step:
                figures.append(bench.figure(f"{name}_over_linear", "ratio", linear))
        row += [f"{phase['slowest']:.2f}", phase["slowest_is"], f"{phase['slow']} of {phase['calls']}", f"{phase['p99']:.2f}", f"{phase['median']:.2f}"]
        if moving:
            copied, due = sum(move["copied_bytes"] for move in step["moves"]), (step["nodes"] - step["before"]) / step["nodes"]
            share, held = copied / taken["bytes"] / due, max((move["pause_us"] for move in step["moves"]), default=0) / 1e3
            row += [f"{copied / 1e6:.0f}", f"{step['ended'] - step['began']:.1f}", f"{share:.2f}", f"{held:.0f}"]
            figures += [bench.figure(f"{name}_moved", "B", copied), bench.figure(f"{name}_seconds", "s", step["ended"] - step["began"]),
                        bench.figure(f"{name}_moved_over_due", "ratio", share), bench.figure(f"{name}_held", "ms", held),
                        bench.figure(f"{name}_attempts_that_failed", "attempts", sum(move["attempts_before"] for move in step["moves"]))]
        else:
            row += ["-"] * 4
        rows.append(row)
    return figures, bench.table(rows) + "\n" + "\n".join(
        [f"{nodes} nodes store " + ", ".join(f"{server} {size / sum(shares.values()):.3f}" for server, size in shares.items())
         for nodes, shares in stored_at.items()] +
        [f"{taken['clients']} clients with {taken['bytes'] / 1e6:.0f} MB; links of {taken['rate']} Mbit/s each way; moves copy at most "
         + (f"{taken['limit'] / MIB:.0f} MiB/s" if taken["limit"] else "what goes") + f"; {taken['asked_again']} calls were answered JUKEBOX",
         f"slowest: the goal is {GOAL_SLOWEST} s at a limit of {LIMIT_OF_MOVES // MIB} MiB/s; over linear: {GOAL_LINEAR}"])


def draw(taken, folder):
    """Bandwidth over time, and below it the slowest operation of each second."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / KEPT).write_text(json.dumps(taken) + "\n")
    start, found, link = taken["start"], phases(taken), taken["rate"] / 8
    seconds = range(int(taken["end"] - start))
    lines = []
    for second in seconds:
        begin = start + second
        slowest = max((ended - began for began, ended, *_ in taken["operations"] if begin <= ended < begin + 1), default=0)
        rates = (bandwidth(taken["operations"], begin, begin + 1, what) for what in (None, "read", "write"))
        lines.append(" ".join([f"{second + 0.5}", *(f"{rate:.2f}" for rate in rates), f"{slowest:.3f}"]))
    # Asked for only while sites move; a line between is none.
    copied = [f"{(at + before_at) / 2 - start:.2f} {(size - before) / (at - before_at) / 1e6:.2f}" if at - before_at < 10 * POLLS else ""
              for (before_at, before), (at, size) in zip(taken["copied"], taken["copied"][1:])]
    marks, linear = [], []
    for step in taken["steps"]:
        for at, label in ((step["began"], f"{step['nodes']} nodes"), (step["ended"], "moved")):
            marks += [f"set arrow from {at - start:.1f}, graph 0 to {at - start:.1f}, graph 1 nohead dt 2 lc rgb 'gray40'",
                      f"set label '{label}' at {at - start + 0.5:.1f}, graph 0.05 rotate by 90 tc rgb 'gray40'"]
    for phase in found[::2]:
        value = found[0]["both"] * phase["nodes"] / found[0]["nodes"]
        linear += [f"{phase['begin'] - start:.1f} {value:.2f}", f"{phase['end'] - start:.1f} {value:.2f}", ""]
    script = [f"set terminal svg size 1200,700 noenhanced background 'white'\nset output '{folder / PICTURE}'",
              *(f"${name} << EOD\n" + "\n".join(data) + "\nEOD" for name, data in (("rates", lines), ("copied", copied), ("linear", linear))),
              f"set multiplot layout 2,1 title '{taken['clients']} clients read and write while storage nodes are added, "
              f"{link:g} MB/s each way of a node'",
              "set grid\nset key outside right\nset lmargin 10\nset rmargin 26\nset xrange [0:*]\nset yrange [0:*]", *marks, "set ylabel 'MB/s'",
              "plot $rates using 1:2 with lines lw 2 title 'read and written', $rates using 1:3 with lines title 'read', "
              "$rates using 1:4 with lines title 'written', $copied using 1:2 with lines title 'copied by moves', "
              "$linear using 1:2 with lines dt 3 lw 2 lc rgb 'black' title 'linear'",
              "set xlabel 'seconds'\nset ylabel 'slowest operation, s'",
              f"plot $rates using 1:5 with impulses lw 3 title 'of each second', {GOAL_SLOWEST} with lines dt 3 lc rgb 'black' title 'goal'",
              "unset multiplot"]
    # Through its standard input, as slice-load does it.
    done = subprocess.run(["gnuplot", "-"], input="\n".join(script) + "\n", text=True, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"gnuplot did not draw {folder / PICTURE} (is gnuplot-nox installed?): {done.stderr.strip()}")


def arguments():
    parser = bench.arguments(__doc__)
    parser.add_argument("--nodes", type=table2.numbers, default=[3, 4, 8], help="to begin with, and after each step")
    parser.add_argument("--rate", type=int, default=100, help="megabits a second of each storage node's link, each way")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--outstanding", type=int, default=2, help="READs for each node, of all clients together; WRITEs likewise")
    parser.add_argument("--megabytes", type=int, default=24, help="MiB of each of a client's two files")
    parser.add_argument("--seconds", type=int, default=15, help="measured before the first step and after each")
    parser.add_argument("--limit", help="of moves, as `slicectl moves limit` takes it")
    parser.add_argument("--pictures", type=pathlib.Path, help="folder for the picture and what it is drawn of")
    options = parser.parse_args()
    if len(options.nodes) < 2 or sorted(set(options.nodes)) != options.nodes:
        parser.error("--nodes: growing numbers are expected, as 3,4,8")
    return options


def main():
    options = arguments()
    with bench.scratch(options) as folder:
        taken = measure(options, folder)
    if options.pictures:
        draw(taken, options.pictures)
    figures, text = results(taken)
    bench.finish(options, "grow", figures, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
