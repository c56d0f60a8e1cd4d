"""The suite `grow`: storage nodes are added and one is emptied while all work, and storage sites move between them, data and all.

Two kernel clients and `durability` work on files of their own, and check them, from the beginning to the end: none may see an error, a wrong byte
or a wrong answer, also while moves are slowed down, paused and given up, and while the manager and those who give and get sites are killed."""

import collections
import contextlib
import json
import pathlib
import random
import re
import sys
import tempfile
import time

import lost_manager_state
import power_cut
import uml

FILES = 24  # of libnfs; 16 stripes each
STRAY = 0.05  # by which a share of the sites may differ
SLOW, USUAL = "1MiB", "64MiB"  # limits of moves
TRICKLE = 128 << 10  # bytes a second; what the sites of two moves have takes it many seconds
KILLS, BETWEEN_SECONDS = 8, (1.0, 2.5)
MOVES_SECONDS, SETTLES_SECONDS = 90, 30  # for moves to end, and for what is told and removed by and by
AWAY_SECONDS = 5
GUEST_SECONDS = 900  # at the most
TREE = ["--files", "60", "--largest", "3000000"]
END = "/run/slice/control/end"  # in a guest: a file that the host makes

# A round of a guest: it forgets what it has read, and writes anew what it checks, but for a tree that stays.
GUEST = """
mkdir -p {folder} && cd {folder} && {programs}/tree make tree {tree} --seed {seed} || exit 1
echo ready
round=0
while [ ! -e {end} ]; do
    round=$((round + 1))
    echo 3 > /proc/sys/vm/drop_caches
    {programs}/fsx fsx --ops 300 --size 3000000 --seed {seed}$round && {programs}/tree verify tree {tree} --seed {seed} &&
    python3 {known} write . --files 4 --size 1500000 --seconds 2 --seed {seed}$round || exit 1
    echo 3 > /proc/sys/vm/drop_caches
    python3 {known} check . --seed {seed}$round --size 1500000 || exit 1
done
echo "rounds: $round"
"""


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} grow {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Clients:
    """All who work on the volume meanwhile."""

    def __init__(self, target, options):
        values = {"programs": options.programs, "tree": " ".join(TREE), "known": uml.ROOT / "tests/cluster/guest/known_bytes.py", "end": END}
        scripts = [GUEST.format(folder=f"grow-{number}", seed=options.seed * 10 + number, **values) for number in (1, 2)]
        self.guests = [target.client(["sh", "-c", script], timeout=GUEST_SECONDS) for script in scripts]
        hosts = target.hosts()
        hosts.load()
        self.load = power_cut.Load(hosts, options, power_cut.REACH)

    def __enter__(self):
        self.running = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            for guest in self.guests:
                stack.enter_context(guest)
            for guest in self.guests:
                if not guest.says("ready"):
                    raise uml.UmlError(f"a kernel client does not get ready: {guest.text}{guest.console[-500:]}")
            stack.enter_context(self.load)
            self.running = stack.pop_all()
        return self

    def __exit__(self, *_):
        """Where the suite has ended them this does nothing."""
        self.load.give_up()
        self.running.close()

    def work(self, when):
        stopped = [f"kernel client: {self.told(guest)}" for guest in self.guests if guest.poll() is not None]
        stopped += ["durability"] if self.load.process.poll() is not None else []
        return say(not stopped, f"{when}: all clients go on working", "; ".join(stopped))

    @staticmethod
    def told(guest):
        return " | ".join(guest.text.strip().splitlines()[-4:])

    def end(self):
        for guest in self.guests:
            (guest.folder / pathlib.Path(END).name).touch()
        self.load.__exit__()
        codes = [guest.wait() for guest in self.guests]
        ok = say(not self.load.saw_error, "durability saw no error and no wrong reply")
        ok &= say(codes == [0, 0], "nor did the kernel clients", "\n".join(self.told(guest) for guest in self.guests))
        longest = [float(seconds) for guest in self.guests for seconds in re.findall(r"the longest took (\S+) s", guest.text)]
        rounds = [re.findall(r"rounds: (\d+)", guest.text) for guest in self.guests]
        print(f"kernel clients: {rounds} rounds; the longest of their writes of 1.5 MB with fsync took {max(longest, default=0):.1f} s", flush=True)
        return ok & say(self.load.verifies(), "all that was acknowledged to durability is there")


class Scene:
    def __init__(self, target, options, files, clients):
        self.target, self.files, self.clients = target, files, clients
        self.chance = random.Random(options.seed)
        self.seen = {}  # each move, as it was listed last: a manager that dies forgets those that have ended

    def slicectl(self, *words):
        return self.target.slicectl(*words, check=False)

    def owners(self):
        return json.loads(self.target.slicectl("tables", "--json").stdout)["classes"]["storage"]

    def sites_of(self, node):
        return [site for site, owner in enumerate(self.owners()) if owner == node]

    def going(self):
        """The moves that go on; None where the manager does not answer."""
        done = self.slicectl("moves", "--json")
        if done.returncode != 0:
            return None
        listed = json.loads(done.stdout)["moves"]
        self.seen.update({move["move"]: move for move in listed})
        return [move for move in listed if move["ended_ns"] is None]

    def copied(self):
        return sum(move["copied_bytes"] for move in self.going() or [])

    def until(self, good, patience=SETTLES_SECONDS):
        """Asks until the answer is good, or time is over; whether it is."""
        end = time.monotonic() + patience
        while not (is_so := good()) and time.monotonic() < end:
            time.sleep(0.3)
        return is_so

    def prints_well(self, what, *words):
        """A check of slicectl's, which may see what is about to be told or removed."""
        answers = []

        def clean():
            answers.append(self.slicectl(*words))
            return answers[-1].returncode == 0
        return say(self.until(clean), f"{what}: {' '.join(words)}", f"exit code {answers[-1].returncode}\n{answers[-1].stdout}{answers[-1].stderr}")

    def ended(self, what, known):
        """Waits until no move goes on; tells what those beyond the known ones were."""
        start = time.monotonic()
        ok = say(self.until(lambda: self.going() == [], MOVES_SECONDS), f"{what}: moves end", self.slicectl("moves").stdout)
        moves = [move for number, move in self.seen.items() if number not in known]
        print(f"{what}: {len(moves)} moves of {sum(len(move['sites']) for move in moves)} sites, {sum(move['copied_bytes'] for move in moves)} bytes, "
              f"{max((move['ended_ns'] or 0) - move['began_ns'] for move in moves) / 1e9 if moves else 0:.1f} s the longest, "
              f"waited for {time.monotonic() - start:.1f} s; "
              f"requests were held for {max((move['pause_us'] for move in moves), default=0) / 1e3:.1f} ms at most", flush=True)
        return ok

    def whole(self, what, nodes):
        """These have all sites, each its share; every byte is right and at its place, and all work on."""
        counts, share = collections.Counter(self.owners()), len(self.owners()) / len(nodes)
        ok = say(set(counts) == set(nodes) and all(abs(count - share) <= STRAY * share for count in counts.values()), f"{what}: each node has its share", counts)
        ok &= self.prints_well(what, "tables", "--check")
        ok &= self.prints_well(what, "fsck", "--data")
        wrong = self.files.wrong()
        ok &= say(not wrong, f"{what}: every byte is right", f"of {len(self.files.written)} files wrong: {', '.join(wrong)}")
        return ok & say(self.files.write(1), f"{what}: a file is written") & self.clients.work(what)

    def add(self, number):
        name = self.target.add_storage_node(number)
        self.target.wait_serving()
        return name

    def nodes(self, *without):
        return [name for name in self.target.servers("store") if name not in without]


def store4_is_added(scene):
    what, before, pids, known = "store4", scene.owners(), scene.target.pids(), set(scene.seen)
    added = scene.add(4)
    part = 1 / len(scene.nodes())
    planned = json.loads(scene.target.slicectl("rebalance", "--dry-run", "--json").stdout)["sites_to_move"]
    ok = say(abs(planned / len(before) - part) <= STRAY * part, f"{what}: rebalance --dry-run: {planned} of {len(before)} sites")
    ok &= say(scene.owners() == before and scene.going() == [], f"{what}: which moves nothing")
    scene.target.slicectl("moves", "limit", SLOW)
    scene.target.slicectl("rebalance")
    ok &= scene.ended(what, known)
    moved = [(old, new) for old, new in zip(before, scene.owners()) if old != new]
    ok &= say({new for _, new in moved} == {added} and abs(len(moved) / len(before) - part) <= STRAY * part, f"{what}: {len(moved)} sites have moved to it alone",
              collections.Counter(moved))
    ok &= scene.whole(what, scene.nodes())
    objects = (pathlib.Path(scene.target.facts["config"]).parent / "data" / added / "objects").rglob("*")
    size = sum(path.stat().st_blocks * 512 for path in objects if path.is_file())
    ok &= say(size > 1 << 20, f"{what}: {size} bytes are on its disk")
    return ok & say({name: pid for name, pid in scene.target.pids().items() if name != added} == pids, f"{what}: nobody was restarted for that")


def limited(scene):
    """Two moves slowly; all of them stand still; one is given up; the other ends fast."""
    what, before, known = "limit", scene.owners(), set(scene.seen)
    scene.target.slicectl("moves", "limit", str(TRICKLE))
    for giver, taker in (("store1", "store2"), ("store3", "store1")):
        scene.target.slicectl("site", "move", "storage", ",".join(map(str, scene.sites_of(giver)[:50])), taker)
    ok = say(scene.until(lambda: [move["phase"] for move in scene.going()] == ["copying"] * 2 and scene.copied() > 0), f"{what}: two moves are copying", scene.going())
    print(scene.slicectl("moves").stdout, end="", flush=True)
    first, start = scene.copied(), time.monotonic()
    time.sleep(4)
    copied, most = scene.copied() - first, 1.25 * TRICKLE * (time.monotonic() - start) + (2 << 16)
    ok &= say(0 < copied <= most, f"{what}: {copied} bytes in 4 s, at most {most:.0f}")
    scene.target.slicectl("moves", "pause")
    time.sleep(1.5)
    first = scene.copied()
    time.sleep(2)
    ok &= say(scene.copied() == first, f"{what}: paused at {first} bytes", scene.copied())
    scene.target.slicectl("moves", "resume")
    ok &= say(scene.until(lambda: scene.copied() > first), f"{what}: resumed", scene.going())
    given_up = scene.going()[0]
    scene.target.slicectl("moves", "abort", str(given_up["move"]))
    ok &= say(scene.until(lambda: scene.seen[given_up["move"]]["phase"] == "aborted" or not scene.going()), f"{what}: one is given up", scene.seen[given_up["move"]])
    ok &= say(all(scene.owners()[site] == before[site] for site in given_up["sites"]), f"{what}: whose sites are where they were")
    scene.target.slicectl("moves", "limit", USUAL)
    ok &= scene.ended(what, known)
    ok &= say([scene.seen[move]["phase"] for move in sorted(set(scene.seen) - known)] == ["aborted", "done"], f"{what}: the other is done")
    scene.target.slicectl("rebalance")
    return ok & scene.ended(f"{what}, and back", set(scene.seen)) & scene.whole(what, scene.nodes())


def killed(scene):
    """store5 gets its share, whoever dies meanwhile."""
    what, known = "kills", set(scene.seen)
    scene.target.slicectl("moves", "limit", SLOW)
    added = scene.add(5)
    scene.target.slicectl("rebalance")
    victims = []
    while len(victims) < KILLS and (going := scene.going()) != []:
        givers = sorted({move["from"] for move in going or [] if move["phase"] != "waiting"})
        victims.append(scene.chance.choice(["manager1", added, *([scene.chance.choice(givers)] if givers else [])]))
        scene.target.kill_and_start(victims[-1])
        time.sleep(scene.chance.uniform(*BETWEEN_SECONDS))
    scene.target.wait_serving()
    ok = say(len(victims) >= KILLS / 2, f"{what}: killed meanwhile: {' '.join(victims)}")
    ok &= scene.ended(what, known)
    aborted = [move for number, move in scene.seen.items() if number not in known and move["phase"] == "aborted"]
    scene.target.slicectl("rebalance")
    print(f"{what}: {len(aborted)} moves were given up; another rebalance", flush=True)
    return ok & scene.ended(f"{what}, again", set(scene.seen)) & scene.whole(what, scene.nodes())


def drained(scene):
    what, known = "drain", set(scene.seen)
    scene.target.slicectl("moves", "limit", USUAL)
    scene.target.slicectl("server", "drain", "store2")
    ok = scene.ended(what, known) & say(not scene.sites_of("store2"), f"{what}: store2 has no sites left")
    ok &= scene.whole(what, scene.nodes("store2"))
    scene.target.stop("store2")
    try:
        time.sleep(AWAY_SECONDS)
        wrong = scene.files.wrong()
        ok &= say(not wrong, f"{what}: every byte is right without store2", ", ".join(wrong)) & scene.clients.work("without store2")
    finally:
        scene.target.start("store2")
    scene.target.wait_serving()
    return ok


def servers_said(scene):
    """What there is to be told after a failure, before it goes."""
    print(scene.slicectl("moves").stdout, scene.slicectl("status").stdout, sep="\n")
    hosts = scene.target.hosts()
    hosts.load()
    power_cut.servers_said(hosts)
    for guest in scene.clients.guests:
        print(f"---- a kernel client\n{guest.text[-2000:]}\n{guest.console[-2000:]}", flush=True)


def grow(ensembles, options):
    steps = [store4_is_added, limited, killed, drained]
    wanted = options.only.split(",") if options.only else [step.__name__ for step in steps]
    with tempfile.TemporaryDirectory(prefix="slice-grow-", dir="/dev/shm") as folder, ensembles.make("grow", storage=3) as target:
        files = lost_manager_state.Files(target, folder)
        if not files.write(FILES):
            return False
        with Clients(target, options) as clients:
            scene, ok = Scene(target, options, files, clients), True
            for step in [step for step in steps if step.__name__ in wanted]:
                start = time.monotonic()
                ok &= step(scene)
                print(f"{step.__name__}: {time.monotonic() - start:.0f} s", flush=True)
            ok &= clients.end()
            ok &= scene.prints_well("at the end", "tables", "--check") & scene.prints_well("at the end", "fsck", "--data")
            print(f"of all {len(scene.seen)} moves requests were held for {max((move['pause_us'] for move in scene.seen.values()), default=0) / 1e3:.1f} ms at most")
            if not ok:
                servers_said(scene)
            return ok
