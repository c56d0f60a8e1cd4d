#!/usr/bin/env python3
"""How long a client stands still when a server is taken over by another host (docs/failover.md), or a proxy's clients by another proxy.

    failover.py [--json] [--trials N] [--ways killed,vanished,stopped,planned] [--servers dir1,small1,...,storage,manager,holder,sharer] [--pictures DIR] [--folder DIR]

An ensemble whose directory servers, small-file servers and coordinator each have a process on a second host that stands by; files have two copies on
three storage nodes, and three managers an etcd of three. A kernel client writes 4 KiB and syncs them, again and again, reads, and asks for a file's attributes
ten times a second (mounted with actimeo=0); slice-load checks replies meanwhile. Each of the servers that serves is, --trials times and in each way:

    killed    by SIGKILL
    vanished  its host's link is taken down: no RST, no FIN
    stopped   by SIGSTOP; ten seconds later it goes on
    planned   `slicectl failover`

`storage` is a storage node, one after another, and `manager` the one that leads; of these and of proxies `planned` is a clean stop. `holder` and
`sharer` are proxies of three that share the clients (docs/proxy.md): the one that has the virtual address, and another. Three kernel clients, one of
each proxy, write 4 KiB and sync them, read, and ask for attributes all the time, and check what they see.

`served`: until the manager hears that another host serves it, or another manager leads. `waited`: the longest that an operation of the client took
meanwhile; what took less than 0.3 s is not told and counts as 0 (but of proxies). The goal: 99 of 100 under 5 s, planned under 1 s."""

import argparse
import contextlib
import pathlib
import signal
import sys
import time

import bench

sys.path.insert(0, str(bench.ROOT / "tests/cluster"))
import failover  # noqa: E402  (its folder is known only now)
import spread  # noqa: E402
from bench import targets  # noqa: E402


def part(values, share):
    """The value below which that share of them is."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def picture(path, waits):
    """Every trial as a dot over how long the client waited, a row a way."""
    width, row, most = 900, 60, max(6.0, *(wait for each in waits.values() for wait in each))
    def x(seconds):
        return 120 + seconds / most * (width - 150)
    marks = "".join(f'<line x1="{x(s):.0f}" x2="{x(s):.0f}" y1="20" y2="{30 + row * len(waits)}" stroke="#ccc"/><text x="{x(s):.0f}" y="14">{s} s</text>'
                    for s in range(int(most) + 1))
    dots = "".join(f'<text x="8" y="{54 + row * index}">{way}</text>' + "".join(
        f'<circle cx="{x(wait):.1f}" cy="{50 + row * index + 18 * (number % 7 - 3) / 3:.1f}" r="3" fill="#2468a4" fill-opacity="0.6"/>'
        for number, wait in enumerate(each)) for index, (way, each) in enumerate(waits.items()))
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{40 + row * len(waits)}" font-family="sans-serif" font-size="12">'
                    f'<rect width="100%" height="100%" fill="white"/>{marks}{dots}</svg>\n')


# ---- the same of proxies: what is done to one, and what brings it back ----

def proxy_killed(pair, name):
    pair.end(name, signal.SIGKILL)
    return lambda: pair.start(name)


def proxy_vanished(pair, name):
    """Nothing passes any more, and its host sees no difference."""
    pair.set_ports(name, "nomaster")
    return lambda: pair.plug_in(name)


def proxy_stopped(pair, name):
    pair.signal(name, signal.SIGSTOP)
    begun = time.monotonic()

    def go_on():
        time.sleep(max(0, begun + failover.STOPPED_SECONDS - time.monotonic()))
        pair.signal(name, signal.SIGCONT)
    return go_on


def proxy_planned(pair, name):
    pair.end(name, signal.SIGTERM)
    return lambda: pair.start(name)


PROXIES = ("holder", "sharer")
PROXY_WAYS = {"killed": proxy_killed, "vanished": proxy_vanished, "stopped": proxy_stopped, "planned": proxy_planned}


def of_proxies(options, roles, folder):
    """{role and way: what the clients waited at the longest, of each trial}, and what went wrong."""
    waits = {}
    control = pathlib.Path(folder) / "control"
    control.mkdir()
    with spread.Shared(f"bench{bench.os.getpid()}", pathlib.Path(folder), options.build / "bin", spread.PROXIES, spread.SETTINGS) as pair, contextlib.ExitStack() as stack:
        if not pair.wait(lambda: pair.shared_by(*spread.PROXIES), spread.START_SECONDS, pause=0.3):
            return waits, ["the proxies do not share the clients"]
        clients = [stack.enter_context(client.guest) and client for client in spread.clients_of_each(pair, control)]
        trial = spread.Trial(pair, clients)
        if not all(client.guest.says("ready") for client in clients):
            return waits, ["a client does not work"]
        for way in options.ways.split(","):
            for number in range(options.trials):
                for role in roles:
                    holder, others, _ = trial.begin()
                    name = holder if role == "holder" else others[number % len(others)]
                    back = PROXY_WAYS[way](pair, name)
                    left = set(spread.PROXIES) - {name}
                    if trial.settled(left):
                        waits.setdefault(f"{role} {way}", []).append(max(client.longest() for client in clients))
                    back()
                    if trial.wrong() or not trial.ok:
                        return waits, trial.wrong() or [f"{name}, {way}: the proxies do not come to share the clients"]
                bench.say(f"{', '.join(roles)} {way}: {number + 1} of {options.trials}")
        (control / "now").touch()
        return waits, [f"a client ended with {code}" for code in (client.guest.wait() for client in clients) if code != 0]


AWAY_SECONDS = 8  # of a storage node
WAYS = {way.__name__: way for way in failover.WAYS}
WAYS_OF_OTHERS = {**WAYS, failover.planned.__name__: failover.ended}  # of those that nobody stands by for


# ---- one trial of a server: as failover.until_over(), and whether all was as before afterwards ----

def backed_server(scene, way, name):
    scene.until(lambda: scene.serving(name) is not None, failover.SERVES_SECONDS)
    took = failover.trial(scene, name, WAYS[way])
    return took, scene.until(lambda: scene.ready(name), failover.SERVES_SECONDS)


def storage_node(scene, way, number):
    """Nobody takes its part over: the others have all bytes. It is away for longer than it takes until all go on without it."""
    nodes, over = scene.target.servers("store"), time.monotonic() + AWAY_SECONDS
    return failover.until_over(scene, WAYS_OF_OTHERS[way], nodes[number % len(nodes)], lambda: time.monotonic() > over), scene.whole()


def leading_manager(scene, way, _):
    first = scene.leader()
    return failover.until_over(scene, WAYS_OF_OTHERS[way], first, lambda: scene.leader() not in (None, first)), scene.whole()


OTHERS = {"storage": storage_node, "manager": leading_manager}  # that have rows of their own


def of_servers(options, names, folder):
    """{role and way: until another host serves, of each trial}, the same of what the client waited, and what went wrong."""
    served, waited, lost = {}, {}, []
    ensembles = targets.Ensembles(f"bench{bench.os.getpid()}", folder, options.build / "bin")
    suite = argparse.Namespace(programs=options.build / "cluster", seed=1, scale=1.0, only=None)
    with ensembles, failover.scene_of(ensembles, suite, managers=3, etcd=3) as scene:
        for way in options.ways.split(","):
            for number in range(options.trials):
                for name in names or [*scene.backed, *OTHERS]:
                    row = f"{name} {way}" if name in OTHERS else way
                    took, well = OTHERS[name](scene, way, number) if name in OTHERS else backed_server(scene, way, name)
                    if took is None or not well:
                        lost.append(f"{name}, {way}: " + ("nobody took it over" if took is None else "it did not come back"))
                        continue
                    if name != "storage":
                        served.setdefault(row, []).append(took[0])
                    waited.setdefault(row, []).append(max([0, *took[1].values()]))
                bench.say(f"{way}: {number + 1} of {options.trials}")
        return served, waited, lost + [f"slice-load: {fault}" for fault in scene.load.faults]


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--trials", type=int, default=10, help="of each server in each way")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--servers", help="by comma (default: all that have a standby, storage nodes, the leading manager, and both kinds of proxies)")
    parser.add_argument("--pictures", type=pathlib.Path)
    options = parser.parse_args()
    if unknown := set(options.ways.split(",")) - set(WAYS):
        parser.error(f"no such way: {', '.join(unknown)}")
    wanted = options.servers.split(",") if options.servers else None
    roles = [role for role in PROXIES if wanted is None or role in wanted]
    names = [name for name in wanted or [] if name not in PROXIES]
    served, waited, faults = {}, {}, []
    if wanted is None or names:
        with bench.scratch(options) as folder:
            served, waited, faults = of_servers(options, names, folder)
    if roles:
        with bench.scratch(options) as folder:
            more, troubles = of_proxies(options, roles, folder)
            waited, faults = {**waited, **more}, faults + troubles
    rows, figures = [["way", "trials", "served, s: median", "99 %", "most", "waited, s: median", "99 %", "most", "over 5 s"]], []
    for way, waits in waited.items():
        over = sum(wait > 5 for wait in waits)
        until = [f"{part(served[way], share):.2f}" for share in (0.5, 0.99, 1)] if way in served else [""] * 3
        rows.append([way, len(waits), *until, *(f"{part(waits, share):.2f}" for share in (0.5, 0.99, 1)), over])
        at = way.replace(" ", "_")
        figures += [bench.figure(f"{at}_waited_median", "s", part(waits, 0.5)), bench.figure(f"{at}_waited_99", "s", part(waits, 0.99)),
                    bench.figure(f"{at}_over_5s", "trials", over), bench.figure(f"{at}_trials", "trials", len(waits))]
    if options.pictures and waited:
        options.pictures.mkdir(parents=True, exist_ok=True)
        picture(options.pictures / "failover.svg", waited)
    bench.finish(options, "failover", figures, bench.table(rows) + "\nthe goal: 99 of 100 under 5 s, planned under 1 s")
    if faults:
        raise SystemExit("failover: " + "; ".join(map(str, faults)))


if __name__ == "__main__":
    main()
