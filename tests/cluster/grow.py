"""The suite `grow`: servers of every class are added, and some emptied, while all work, and sites move between them, data and all.

Two kernel clients, `durability` and `slice-load` work on files of their own, and check them, from the beginning to the end: none may see an error, a wrong byte
or a wrong answer, also while moves are slowed down, paused and given up, and while the manager and those who give and get sites are killed."""

import collections
import contextlib
import json
import pathlib
import random
import re
import shutil
import tempfile
import time

import load as loads
import lost_manager_state
import power_cut
import steps
import uml

FILES, TREE = 24, 20  # of libnfs, 16 stripes each; and of each kernel client's tree
STRAY = 0.05  # of a share of the sites, by which it may differ
SLOW, USUAL = "1MiB", "64MiB"  # limits of moves
TRICKLE, FEW = 128 << 10, 50  # bytes a second, and sites of a move that takes many seconds then
KILLS, BETWEEN_SECONDS, AWAY_SECONDS = 8, (1.0, 2.5), 5
MOVES_SECONDS, SETTLES_SECONDS = 90, 30  # for moves to end, and for what is told and removed by and by
GUEST_SECONDS, ROUND_SECONDS = 1500, 120  # at the most; of all rounds, and of the last
PAUSE_MS = 40  # between two operations of a worker of `durability`: clients leave processors to those who move
BEGIN, END = "/run/slice/control/begin", "/run/slice/control/end"  # in a guest: files that the host makes
MIRRORED, MAPPED = "mirrored", "block-mapped"  # folders of a guest
# A round of a guest: it forgets what it has read, and writes anew what it checks, but for a tree that stays.
GUEST = """
mkdir -p grow-{seed} && cd grow-{seed} && {programs}/tree make tree --files {files} --largest 3000000 || exit 1
mkdir -p {mirrored} {mapped}
echo ready
while [ ! -e {begin} ]; do sleep 0.1; done
round=0
while [ ! -e {end} ]; do
    round=$((round + 1))
    echo 3 > /proc/sys/vm/drop_caches
    for folder in . {mirrored} {mapped}; do
        {programs}/fsx $folder/fsx --ops 120 --size 3000000 --seed {seed}$round || exit 1
    done
    {programs}/tree verify tree --files {files} --largest 3000000 &&
    for folder in . {mirrored} {mapped}; do
        python3 {known} write $folder --files 2 --size 1500000 --seconds 1 --seed {seed}$round || exit 1
    done
    echo 3 > /proc/sys/vm/drop_caches
    for folder in . {mirrored} {mapped}; do
        python3 {known} check $folder --size 1500000 --seed {seed}$round || exit 1
    done
    sleep 16
done
echo "rounds: $round"
"""


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} grow {what}{'' if ok else f': {got}'}", flush=True)
    return ok


class Clients:
    """All who work on the volume meanwhile."""

    def __init__(self, guests, load, lasting):
        self.guests, self.load, self.lasting = guests, load, lasting

    def told(self):
        return "; ".join(" | ".join(guest.text.strip().splitlines()[-4:]) for guest in self.guests)

    def work(self, when):
        ended = [guest for guest in self.guests if guest.poll() is not None or guest.process.poll() is not None]
        return say(not ended and self.load.process.poll() is None and not self.lasting.faults, f"{when}: all clients go on working",
                   f"kernel clients: {self.told()}; slice-load: {self.lasting.faults}")

    def end(self):
        """Whether all was right."""
        for guest in self.guests:
            (guest.folder / pathlib.Path(END).name).touch()
        self.load.__exit__()
        self.lasting.__exit__()
        codes = [guest.wait(ROUND_SECONDS) for guest in self.guests]
        ok = say(not self.load.saw_error, "durability saw no error and no wrong reply") & say(codes == [0, 0], "nor did the kernel clients", self.told())
        ok &= say(not self.lasting.faults, f"nor did slice-load in {self.lasting.runs} runs", self.lasting.faults)
        text = "".join(guest.text for guest in self.guests)
        longest = max(map(float, re.findall(r"the longest took (\S+) s", text)), default=0)
        print(f"kernel clients: {' and '.join(re.findall(r'rounds: (.*)', text))} rounds; of their writes of 1.5 MB the longest took {longest} s", flush=True)
        return ok & say(self.load.verifies(), "what was acknowledged to durability is there")


@contextlib.contextmanager
def working(target, options, folder):
    """Clients, until the end at the latest."""
    known, hosts = uml.ROOT / "tests/cluster/guest/known_bytes.py", target.hosts()
    hosts.load()
    seeds = [options.seed * 10 + number for number in (1, 2)]
    scripts = [GUEST.format(files=TREE, programs=options.programs, known=known, begin=BEGIN, end=END, mirrored=MIRRORED, mapped=MAPPED, seed=seed)
               for seed in seeds]
    with contextlib.ExitStack() as stack:
        guests = [stack.enter_context(target.client(["sh", "-c", script], timeout=GUEST_SECONDS)) for script in scripts]
        if not all(guest.says("ready") for guest in guests):
            raise uml.UmlError("a kernel client does not get ready: " + "".join(guest.text + guest.console[-500:] for guest in guests))
        for guest, seed in zip(guests, seeds):
            target.slicectl("policy", "set", f"/grow-{seed}/{MIRRORED}", "--copies", "2")
            target.slicectl("policy", "set", f"/grow-{seed}/{MAPPED}", "--placement", "free-space", "--stripe-unit", "64KiB")
            (guest.folder / pathlib.Path(BEGIN).name).touch()
        load = stack.enter_context(power_cut.Load(hosts, options, power_cut.REACH, PAUSE_MS))
        stack.callback(load.give_up)
        lasting = stack.enter_context(loads.Lasting(target, options, folder))
        yield Clients(guests, load, lasting)


class Scene:
    say = staticmethod(say)

    def __init__(self, target, options, files, clients):
        self.target, self.files, self.clients = target, files, clients
        self.chance = random.Random(options.seed)
        self.seen, self.told = {}, set()  # moves, as they were listed last: a manager that dies forgets those that have ended
        self.gone = set()  # servers that were removed

    def ask(self, *words):
        return self.target.slicectl(*words, check=False)

    def tell(self, *words):
        """What slicectl prints, which must be able to."""
        done = self.ask(*words)
        if done.returncode != 0:
            raise SystemExit(f"slicectl {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def owners(self, site_class="storage"):
        return json.loads(self.tell("tables", "--json"))["classes"][site_class]

    def going(self):
        """The moves that go on; None where the manager does not answer."""
        done = self.ask("moves", "--json")
        if done.returncode != 0:
            return None
        listed = json.loads(done.stdout)["moves"]
        self.seen.update({move["move"]: move for move in listed})
        return [move for move in listed if move["ended_ns"] is None]

    def copied(self):
        return sum(move["copied_bytes"] for move in self.going() or [])

    @staticmethod
    def until(good, patience=SETTLES_SECONDS, pause=0.3):
        """Asks until the answer is good, or time is over; whether it is."""
        end = time.monotonic() + patience
        while not (is_so := good()) and time.monotonic() < end:
            time.sleep(pause)
        return bool(is_so)

    def stripes(self, names):
        """How many copies of stripes of these files each storage node has."""
        there = collections.Counter()
        for name in names:
            for part in json.loads(self.tell("where", f"/{name}", "--json"))["storage"]:
                there[part["server"]] += len(part["stripes"])
        return there

    def clean(self, what, *words):
        """A check of slicectl's, which may see what is about to be told or removed."""
        answers = []
        good = self.until(lambda: answers.append(self.ask(*words)) or answers[-1].returncode == 0)
        return self.say(good, f"{what}: {' '.join(words)}", f"exit code {answers[-1].returncode}\n{answers[-1].stdout}{answers[-1].stderr}")

    def ended(self, what):
        """Waits until no move goes on; tells of those that were not told of."""
        start = time.monotonic()
        ok = say(self.until(lambda: self.going() == [], MOVES_SECONDS), f"{what}: moves end", self.ask("moves").stdout)
        moves = [move for number, move in self.seen.items() if number not in self.told]
        self.told.update(self.seen)
        print(f"{what}: {figures(moves)}; waited for {time.monotonic() - start:.1f} s", flush=True)
        return ok

    def right(self, what):
        wrong = self.files.wrong()
        return say(not wrong, f"{what}: every byte is right", f"of {len(self.files.written)} files wrong: {', '.join(wrong)}")

    def even(self, what, site_class, beginning, emptied):
        counts, servers = collections.Counter(self.owners(site_class)), set(self.target.servers(beginning)) - set(emptied) - self.gone
        share = counts.total() / len(servers)
        good = set(counts) == servers and all(abs(count - share) <= STRAY * share for count in counts.values())
        return say(good, f"{what}: each has its share of the {site_class} sites", counts)

    def whole(self, what, emptied=()):
        """All others have their shares of the sites; every byte is right and where it should be, and all work on."""
        ok = all([self.even(what, *which, emptied) for which in (("storage", "store"), ("small-file", "small"), ("directory", "dir"))])
        ok &= self.clean(what, "tables", "--check") & self.clean(what, "fsck", "--data") & self.right(what)
        return ok & say(self.files.write(1), f"{what}: a file is written") & self.clients.work(what)


def figures(moves):
    longest = max(((move["ended_ns"] or move["began_ns"]) - move["began_ns"] for move in moves), default=0) / 1e9
    held = max((move["pause_us"] for move in moves), default=0) / 1e3
    return (f"{len(moves)} moves of {sum(len(move['sites']) for move in moves)} sites, {sum(move['phase'] == 'aborted' for move in moves)} given up; "
            f"{sum(move['copied_bytes'] for move in moves)} bytes; the longest took {longest:.1f} s; requests were held for {held:.1f} ms at most")


def coordinator_is_added(scene):
    """One becomes two; then all sites go to and fro, also while a coordinator is killed."""
    what, chance = "coord2", scene.chance
    added = scene.target.add_coordinator(2)
    scene.target.wait_serving()
    sites = len(scene.owners("coordinator"))
    scene.tell("rebalance")
    ok = scene.ended(what)
    counts = collections.Counter(scene.owners("coordinator"))
    ok &= say(counts == {"coord1": sites // 2, added: sites // 2}, f"{what}: each coordinator has its share", counts) & scene.whole(what)
    for kill, to in ((False, added), (False, "coord1"), (True, added), (True, "coord1")):
        scene.tell("site", "move", "coordinator", f"0-{sites - 1}", to)
        if kill:
            scene.target.kill_and_start(chance.choice(["coord1", added]))
            scene.target.wait_serving()
        ok &= scene.ended(f"{what}, all to {to}") & scene.clients.work(what)
    ok &= scene.whole(f"{what}, there and back")
    scene.tell("server", "drain", "coord1")
    ok &= scene.ended(f"{what}, coord1 drained") & say(set(scene.owners("coordinator")) == {added}, f"{what}: coord1 has no sites left")
    scene.tell("server", "drain", "coord1", "--undo")
    scene.tell("rebalance", "--class", "coordinator")
    return ok & scene.ended(f"{what}, at the end") & scene.whole(f"{what}, at the end")


def directories_are_added(scene):
    """One directory server becomes three, one after another; sites go on going to and fro while any of them dies; then one is emptied,
    and removed."""
    what = "directories"
    for number in (2, 3):
        before, added = scene.owners("directory"), scene.target.add_directory_server(number)
        scene.target.wait_serving()
        part = len(before) / number
        scene.tell("rebalance", "--class", "directory")
        ok = scene.ended(added)
        moved = collections.Counter(new for old, new in zip(before, scene.owners("directory")) if old != new)
        ok &= say(set(moved) == {added} and abs(moved.total() - part) <= max(1, STRAY * part), f"{added}: {moved.total()} sites have moved, to it alone", moved)
        if not ok & scene.whole(added):
            return False
    victims = []
    for turn in range(2 * KILLS // 3):
        scene.ask("site", "move", "directory", "0-63", f"dir{1 + turn % 3}")
        victims.append(scene.chance.choice(["manager1", "dir1", "dir2", "dir3"]))
        time.sleep(scene.chance.uniform(*BETWEEN_SECONDS))
        scene.target.kill_and_start(victims[-1])
    scene.target.wait_serving()
    ok = say(len(victims) > 1, f"{what}: killed meanwhile: {' '.join(victims)}") & scene.ended(what)
    scene.tell("rebalance")
    ok &= scene.ended(f"{what}, again") & scene.whole(what) & emptied(scene, "dir2", "directory")
    return ok & removed(scene, "dir2")


def store4_is_added(scene):
    what, before, pids = "store4", scene.owners(), scene.target.pids()
    added = scene.target.add_storage_node(4)
    scene.target.wait_serving()
    part = len(before) / len(scene.target.servers("store"))
    planned = json.loads(scene.tell("rebalance", "--class", "storage", "--dry-run", "--json"))["sites_to_move"]
    ok = say(abs(planned - part) <= STRAY * part, f"{what}: rebalance --dry-run: {planned} of {len(before)} sites")
    ok &= say(scene.owners() == before and scene.going() == [], f"{what}: which moves nothing")
    scene.tell("moves", "limit", SLOW)
    scene.tell("rebalance")
    ok &= scene.ended(what)
    moved = collections.Counter(new for old, new in zip(before, scene.owners()) if old != new)
    ok &= say(set(moved) == {added} and abs(moved.total() - part) <= STRAY * part, f"{what}: {moved.total()} sites have moved, to it alone", moved)
    ok &= scene.whole(what)
    objects = (pathlib.Path(scene.target.facts["config"]).parent / "data" / added / "objects").rglob("*.0")
    size = sum(path.stat().st_blocks * 512 for path in objects)
    ok &= say(size > 1 << 20, f"{what}: {size} bytes are on its disk")
    return ok & say({name: pid for name, pid in scene.target.pids().items() if name != added} == pids, f"{what}: nobody was restarted for that")


def limited(scene):
    """Two moves go slowly, and stand still; one is given up, the other ends fast."""
    what, before = "limit", scene.owners()
    scene.tell("moves", "limit", str(TRICKLE))
    for giver, taker in (("store1", "store2"), ("store3", "store1")):
        sites = [str(site) for site, owner in enumerate(before) if owner == giver]
        scene.tell("site", "move", "storage", ",".join(sites[:FEW]), taker)
    both = scene.until(lambda: [move["phase"] for move in scene.going()] == ["copying"] * 2 and scene.copied() > 0)
    print(scene.tell("moves"), end="", flush=True)
    if not say(both, f"{what}: two moves are copying"):
        return False
    first, start = scene.copied(), time.monotonic()
    time.sleep(4)
    copied, seconds = scene.copied() - first, time.monotonic() - start
    ok = say(0 < copied <= 1.25 * TRICKLE * seconds + (1 << 17), f"{what}: {copied} bytes in {seconds:.1f} s, the limit is {TRICKLE} a second")
    scene.tell("moves", "pause")
    time.sleep(1.5)
    first = scene.copied()
    time.sleep(2)
    ok &= say(scene.copied() == first, f"{what}: paused at {first} bytes", scene.copied())
    scene.tell("moves", "resume")
    ok &= say(scene.until(lambda: scene.copied() > first), f"{what}: resumed", scene.going())
    given_up, other = scene.going()
    scene.tell("moves", "abort", str(given_up["move"]))
    aborted = scene.until(lambda: scene.going() is not None and scene.seen[given_up["move"]]["phase"] == "aborted")
    ok &= say(aborted, f"{what}: one is given up", scene.seen[given_up["move"]])
    now = scene.owners()
    ok &= say(all(now[site] == before[site] for site in given_up["sites"]), f"{what}: whose sites are where they were")
    scene.tell("moves", "limit", USUAL)
    ok &= scene.ended(what) & say(scene.seen[other["move"]]["phase"] == "done", f"{what}: the other is done", scene.seen[other["move"]])
    scene.tell("rebalance")
    return ok & scene.ended(f"{what}, back again") & scene.whole(what)


def killed(scene):
    """store5 gets its share, whoever dies meanwhile."""
    what, victims = "kills", []
    added = scene.target.add_storage_node(5)
    scene.target.wait_serving()
    scene.tell("moves", "limit", SLOW)
    scene.tell("rebalance")
    while len(victims) < KILLS and (going := scene.going()) != []:
        givers = sorted({move["from"] for move in going or [] if move["phase"] != "waiting"})
        victims.append(scene.chance.choice(["manager1", added, *([scene.chance.choice(givers)] if givers else [])]))
        scene.target.kill_and_start(victims[-1])
        time.sleep(scene.chance.uniform(*BETWEEN_SECONDS))
    scene.target.wait_serving()
    ok = say(len(victims) >= KILLS / 2, f"{what}: killed meanwhile: {' '.join(victims)}") & scene.ended(what)
    scene.tell("rebalance")
    return ok & scene.ended(f"{what}, again") & scene.whole(what)


def small2_is_added(scene):
    """The one small-file server becomes two."""
    what, before, storage, pids = "small2", scene.owners("small-file"), scene.owners(), scene.target.pids()
    added = scene.target.add_small_file_server(2)
    scene.target.wait_serving()
    planned = {each["class"]: each["sites_to_move"] for each in json.loads(scene.tell("rebalance", "--dry-run", "--json"))["classes"]}
    ok = say(planned == {**dict.fromkeys(planned, 0), "small-file": len(before) / 2}, f"{what}: rebalance --dry-run: {planned}")
    scene.tell("moves", "limit", SLOW)
    scene.tell("rebalance")
    ok &= scene.ended(what)
    moved = collections.Counter(new for old, new in zip(before, scene.owners("small-file")) if old != new)
    ok &= say(moved == {added: len(before) / 2} and scene.owners() == storage, f"{what}: {moved.total()} sites have moved, to it alone", moved)
    ok &= scene.whole(what)
    zones = pathlib.Path(scene.target.facts["config"]).parent / "data" / added / "zones"

    def size():
        return sum(path.stat().st_blocks * 512 for path in zones.glob("*.zone"))
    # Until they are saved, some seconds later, they are in its journal.
    ok &= say(scene.until(lambda: size() > 1 << 18), f"{what}: {size()} bytes are on its disk")
    return ok & say({name: pid for name, pid in scene.target.pids().items() if name != added} == pids, f"{what}: nobody was restarted for that")


def small_files_killed(scene):
    """Small-file sites go to and fro, whoever dies meanwhile; then one server is emptied, and does without."""
    what, victims = "small-file kills", []
    scene.tell("moves", "limit", str(TRICKLE))
    scene.tell("site", "move", "small-file", "0-63", "small1")
    while len(victims) < KILLS / 2 and scene.going() != []:
        victims.append(scene.chance.choice(["manager1", "small1", "small2"]))
        scene.target.kill_and_start(victims[-1])
        time.sleep(scene.chance.uniform(*BETWEEN_SECONDS))
    scene.target.wait_serving()
    ok = say(len(victims) > 1, f"{what}: killed meanwhile: {' '.join(victims)}")
    scene.tell("moves", "limit", USUAL)
    ok &= scene.ended(what)
    scene.tell("rebalance")
    ok &= scene.ended(f"{what}, again") & scene.whole(what)
    ok &= emptied(scene, "small1", "small-file")
    scene.tell("server", "drain", "small1", "--undo")
    scene.tell("rebalance")
    return ok & scene.ended("drain small1, back again") & scene.whole("drain small1, back again")


def emptied(scene, name, site_class):
    """Drained, it has no sites left, and nobody misses it while it is away; then it is back."""
    what = f"drain {name}"
    scene.tell("moves", "limit", USUAL)
    scene.tell("server", "drain", name)
    ok = scene.ended(what) & say(name not in scene.owners(site_class), f"{what}: it has no sites left") & scene.whole(what, [name])
    scene.target.stop(name)
    time.sleep(AWAY_SECONDS)
    ok &= scene.right(f"without {name}") & scene.clients.work(f"without {name}")
    scene.target.start(name)
    scene.target.wait_serving()
    return ok


def drained(scene):
    return emptied(scene, "store2", "storage")


def removed(scene, name="store2"):
    """store2 was there at the volume's birth, and had stripes of mirrored and block-mapped files, which go elsewhere, too."""
    what, start = f"remove {name}", time.monotonic()
    ok = say(scene.until(lambda: scene.ask("server", "remove", name).returncode == 0, MOVES_SECONDS), f"{what}: nothing is left there",
             scene.ask("server", "remove", name).stderr)
    print(f"{what}: that took {time.monotonic() - start:.1f} s more", flush=True)
    ok &= say(scene.until(lambda: scene.target.pids()[name] is None), f"{what}: its process ends")
    scene.gone.add(name)
    return ok & scene.whole(what)


def missing(scene):
    """How many copies of files miss something, as coordinators have noted."""
    return sum(scene.target.metrics(name)["coordinator_copies_missing_something"] for name in scene.target.servers("coord"))


def spread(scene):
    """store5 comes. New files of two copies have stripes there at once, old ones when they are evened out."""
    what, old = "store5, two copies", list(scene.files.written)
    added = scene.target.add_storage_node(5)
    scene.target.wait_serving()
    ok = say(scene.files.write(FILES // 4), f"{what}: new files are written")
    there = scene.stripes(scene.files.written[len(old):])
    ok &= say(there[added] > 0, f"{what}: {there[added]} of {there.total()} copies of their stripes are there", there)
    there = scene.stripes(old)
    ok &= say(there[added] == 0, f"{what}: none of {there.total()} of old files", there)
    scene.tell("rebalance")
    scene.tell("moves", "--watch")
    spreads = json.loads(scene.tell("moves", "--json"))["spreads"]
    evened = spreads and all(each["phase"] == "done" and each["left_bytes"] == 0 for each in spreads)
    moved = sum(each["moved_bytes"] for each in spreads)
    ok &= scene.ended(what) & say(evened and moved > 0, f"{what}: `moves --watch` ends when coordinators have evened out: {moved} bytes", spreads)
    ok &= say(scene.until(lambda: "even" not in scene.ask("status").stdout), f"{what}: and so says `status`", scene.ask("status").stdout)
    there = scene.stripes(scene.files.written)
    share = there.total() / len(scene.target.servers("store"))
    good = all(abs(there[name] - share) <= 2 * STRAY * share for name in scene.target.servers("store"))
    return ok & say(good, f"{what}: each has its share of {there.total()}", there) & scene.whole(what)


def lost(scene):
    """A storage node's host goes up in smoke. All files have two copies: nobody loses a byte, and all have two again, without it."""
    name = "store2"
    what, start = f"lost {name}", time.monotonic()
    ok = say(scene.until(lambda: missing(scene) == 0), f"{what}: before, all copies are whole")
    scene.target.kill(name)
    shutil.rmtree(pathlib.Path(scene.target.facts["config"]).parent / "data" / name)
    words, told = ("server", "remove", name, "--lost"), []
    ok &= say(scene.until(lambda: told.append(scene.ask(*words)) or told[-1].returncode == 0, MOVES_SECONDS), f"{what}: server remove --lost",
              f"{told[-1].returncode}: {told[-1].stdout}{told[-1].stderr}")
    print(f"{what}: that took {time.monotonic() - start:.1f} s\n{told[-1].stderr}", end="", flush=True)
    scene.gone.add(name)
    ok &= scene.ended(what) & say(name not in scene.owners(), f"{what}: it has no sites left") & scene.whole(what)
    ok &= say(scene.until(lambda: missing(scene) == 0), f"{what}: all copies are whole", missing(scene))
    for other in ("store1", "store3", "store5"):
        scene.target.kill(other)
        ok &= scene.right(f"{what}, then without {other}") & scene.clients.work(f"{what}, then without {other}")
        scene.target.start(other)
        scene.target.wait_serving()
        ok &= say(scene.until(lambda: missing(scene) == 0, MOVES_SECONDS), f"{what}: all copies are whole once more", missing(scene))
    return ok & scene.whole(f"{what}, at the end")


STEPS = [coordinator_is_added, small2_is_added, directories_are_added, store4_is_added, limited, killed, small_files_killed, drained, removed]
# What the policy for names makes no difference to is done under one; what takes files with two copies apart.
Scenario = collections.namedtuple("Scenario", "shape steps copies", defaults=[1])
SCENARIOS = {
    "mkdir-switching": Scenario({"storage": 3, "policy": "mkdir-switching"}, STEPS),
    "name-hashing": Scenario({"storage": 3, "policy": "name-hashing"}, [directories_are_added]),
    "mirrored": Scenario({"storage": 4, "policy": "mkdir-switching"}, [spread, lost], copies=2),
}


def grow(ensembles, options):
    """--only: scenarios, steps, or both."""
    wanted = options.only.split(",") if options.only else []
    names = [name for name in SCENARIOS if name in wanted] or list(SCENARIOS)
    some = [name for name in wanted if name not in SCENARIOS]
    chosen = {name: [step for step in SCENARIOS[name].steps if not some or step.__name__ in some] for name in names}
    return any(chosen.values()) and all([play(ensembles, options, name, theirs) for name, theirs in chosen.items() if theirs])


def play(ensembles, options, name, chosen):
    print(f"== {name}", flush=True)
    scenario = SCENARIOS[name]
    shape = {"small_files": 1, "directories": 1, **scenario.shape}
    with tempfile.TemporaryDirectory(prefix="slice-grow-", dir="/dev/shm") as folder, ensembles.make("grow", **shape) as target:
        if scenario.copies > 1:
            target.slicectl("policy", "set", "/", "--copies", str(scenario.copies))
        files = lost_manager_state.Files(target, folder)
        if not files.write(FILES):
            return False
        with working(target, options, folder) as clients:
            scene, ok = Scene(target, options, files, clients), False
            try:
                ok = steps.carry_out(chosen, scene)
                ok &= clients.end() & scene.clean("at the end", "tables", "--check") & scene.clean("at the end", "fsck", "--data")
                print(f"in all: {figures(scene.seen.values())}", flush=True)
            finally:
                if not ok:
                    print(clients.told(), scene.ask("moves").stdout, scene.ask("status").stdout, sep="\n")
                    clients.load.hosts.load()  # with those that were added
                    power_cut.servers_said(clients.load.hosts)
            return ok
