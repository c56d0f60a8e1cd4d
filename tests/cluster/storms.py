"""The suites of storms of names over several directory servers: each brings up ensembles of its own, of every size and policy."""

import random
import sys
import threading
import time

import uml

POLICIES = ("mkdir-switching", "name-hashing")
UP_SECONDS, DOWN_SECONDS = (0.7, 2.0), 0.5  # between kills, and between a kill and the start after it
MOVERS, ROUNDS, FILES = 3, 60, 60  # of each kernel client


def configurations(options, sizes):
    """(directory servers, policy) that the suite works on; --only picks some, as 2-name-hashing."""
    every = [(size, policy) for size in sizes for policy in POLICIES]
    wanted = options.only.split(",") if options.only else None
    return [(size, policy) for size, policy in every if wanted is None or f"{size}-{policy}" in wanted]


def run_storm(slice_, options, seconds, *more):
    """The user-space storm; true when nothing that was acknowledged is missing and no wrong status came."""
    command = [options.programs / "name_storm", "--server", slice_.server, "--seconds", int(seconds), "--seed", options.seed,
               "--patience", 90, *more]
    return uml.run_in_netns(slice_.netns, command, seconds + 240)[1] == 0


def fsck(slice_, when, *more):
    """True when the name space is whole, and the bytes are with --data."""
    done = slice_.slicectl("fsck", *more, check=False)
    said = (done.stdout + done.stderr).strip()
    print(f"{'ok' if done.returncode == 0 else 'not ok'} fsck {when}: {said.splitlines()[-1] if said else 'no word'}")
    if done.returncode != 0:
        print(said)
    return done.returncode == 0


def on_each(target, options, sizes, storm):
    """Runs `storm` on a fresh ensemble of each configuration, and fsck after it."""
    good = True
    for size, policy in configurations(options, sizes):
        print(f"-- {size} directory server{'s' if size > 1 else ''}, {policy}", flush=True)
        start = time.monotonic()
        with target.make(f"{size}{policy[0]}", directories=size, policy=policy) as slice_:
            ok = storm(slice_, size, policy) and fsck(slice_, "while it serves", "--data")
            ok = ok and fsck_killed(slice_)
        print(f"-- {'passed' if ok else 'FAILED'} in {time.monotonic() - start:.0f} s", flush=True)
        good &= ok
    return good


def directories(slice_):
    """The processes with directory servers."""
    return slice_.processes_of(slice_.servers("dir"))


def fsck_killed(slice_):
    """All directory servers killed: what is on their disks is whole, and so is what they make of it when they are started again."""
    for name in directories(slice_):
        slice_.kill(name)
    ok = fsck(slice_, "after kill -9 of all directory servers", "--offline")
    for name in directories(slice_):
        slice_.start(name)
    slice_.wait_serving()
    return ok and fsck(slice_, "when they serve again", "--data")


def storm(target, options):
    """Trees unpacked and names moved by several clients at once; on two servers by two kernel clients as well."""
    def one(slice_, size, policy):
        return run_storm(slice_, options, 3 * options.scale, "--workers", 6) and (size != 2 or kernel_clients(slice_, options))
    return on_each(target, options, (1, 2, 4), one)


def storm_kill(target, options):
    """The same while directory servers are killed at random; at the end the checker is checked. (One server alone: see `durability`.)"""
    def one(slice_, size, policy):
        ok = with_kills(slice_, options, 6 * options.scale)
        return ok and notices_damage(slice_, options)
    return on_each(target, options, (2, 4), one)


def with_kills(slice_, options, seconds):
    result = []
    load = threading.Thread(target=lambda: result.append(run_storm(slice_, options, seconds)))
    load.start()
    chance = random.Random(options.seed)
    killed = 0
    end = time.monotonic() + seconds - DOWN_SECONDS
    try:
        time.sleep(1.0)
        while time.monotonic() < end and load.is_alive():
            kill_and_start(slice_, [chance.choice(directories(slice_))])
            killed += 1
            time.sleep(chance.uniform(*UP_SECONDS))
        kill_and_start(slice_, directories(slice_))
    finally:
        load.join()
    print(f"killed {killed} times one, then all {len(directories(slice_))} processes with directory servers")
    return result[0]


def kill_and_start(slice_, names):
    for name in names:
        slice_.kill(name)
    time.sleep(DOWN_SECONDS)
    for name in names:
        slice_.start(name)


def notices_damage(slice_, options):
    command = [options.programs / "name_storm", "--server", slice_.server, "--steps", 120, "--seed", options.seed, "--damage"]
    text, code = uml.run_in_netns(slice_.netns, command, 120, output=None)
    damaged = {line.split()[1] for line in text.splitlines() if line.startswith("damaged ")}
    unnoticed = {name for name in damaged if not any(name in line for line in text.splitlines() if line.startswith("not ok"))}
    good = code == 1 and len(damaged) == 4 and not unnoticed
    print(f"{'ok' if good else 'not ok'} the checker notices damage{'' if good else ': ' + text}", flush=True)
    return good


# Each guest moves names of its own among the same folders and unpacks a tree, and reads the other's tree when both are done.
GUEST = """
wait_for() {{ until ls . | grep -qx "$1"; do sleep 0.2; done; }}
code=0; run() {{ "$@" || code=1; }}
{begin}
run {programs}/storm storm --phase move --movers {movers} --first {first} --rounds {rounds} --seed {seed}
run {programs}/tree make tree-{me} --files {files} --largest 300000 --seed {me}
touch done-{me}; wait_for done-{other}
run {programs}/tree verify tree-{other} --files {files} --largest 300000 --seed {other}
{end}
exit $code
"""


def kernel_clients(slice_, options):
    """Two kernel clients at once."""
    numbers = {"programs": options.programs, "movers": MOVERS, "rounds": int(ROUNDS * options.scale), "seed": options.seed,
               "files": int(FILES * options.scale)}
    make = f"run {options.programs}/storm storm --phase make; touch ready"
    check = f"run {options.programs}/storm storm --phase check --movers {2 * MOVERS}"
    scripts = [GUEST.format(me=1, other=2, first=0, begin=make, end=check, **numbers),
               GUEST.format(me=2, other=1, first=MOVERS, begin="wait_for ready", end="", **numbers)]
    settings = {"output": sys.stdout, "timeout": 120 + 60 * options.scale}
    with slice_.client(["sh", "-c", scripts[0]], **settings) as one, slice_.client(["sh", "-c", scripts[1]], **settings) as two:
        codes = [one.wait(), two.wait()]
    if codes != [0, 0]:
        print(f"not ok kernel clients: exit codes {codes}")
    return codes == [0, 0]
