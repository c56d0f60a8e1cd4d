"""The suite `client-proxy`: a kernel client that mounts by mount.slice, from a proxy on its own host (docs/client-proxy.md). Its requests go
to servers without the ensemble's proxy, but for files with copies; the proxy on its host is killed, the ensemble's, a directory server and
a storage node; no error, no wrong byte, and nobody but root is served."""

import json
import time

import stalls
import uml

FOLDER = "client-proxy"  # of files with two copies
AWAY_SECONDS = 4.0  # of the ensemble's proxy
UNNOTICED, KEPT, LONGEST = 1.0, 3.5, 6.0  # seconds
DIES = "clientd-dies"
GUEST_SECONDS = 150


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} client-proxy {what}{'' if ok or not got else f': {got}'}", flush=True)
    return bool(ok)


def command(target, kills):
    """Mounts, does its work, and watches then how long it stands still."""
    here = uml.ROOT / "tests/cluster/guest"
    program = target.bin_dir.resolve() / "slice-clientd"
    words = f"python3 {here}/client_proxy.py {program} {target.server} /mnt --mirrored {FOLDER} --kills {kills}"
    lists = f"cd /mnt && python3 {here}/acls.py --seconds 5 && rm -r acls-1"
    watch = f"cd /mnt && python3 {here}/stalls.py . --seconds {GUEST_SECONDS} --until {stalls.END} --tell 0.5"
    dies = f"while [ ! -e /run/slice/control/{DIES} ]; do sleep 0.2; done; pkill -9 -x slice-clientd"
    return ["bash", "-c", f"({dies}) & {words} && {lists} && {watch}; code=$?; cd /; [ $code = 0 ] || tail -20 /run/slice-client/*.log; umount /mnt; exit $code"]


def proxied(target):
    """Calls of clients that the ensemble's proxy has taken."""
    return sum(count for name, count in target.metrics(target.proxy).items() if name.startswith("proxy_user_outcomes_total"))


def longest_while(client, what, limit, event):
    """event happens; the client's longest operation since, which is to be shorter than limit."""
    since = client.mark()
    event()
    time.sleep(1.5)
    longest = max(client.longest_told(since).values(), default=0.0)
    return say(longest < limit, f"{what}: the longest took {f'{longest:.2f}' if longest else 'less than 0.5'} s", f"{limit} s at the most wanted")


def without_proxy(target):
    target.kill(target.proxy)
    time.sleep(AWAY_SECONDS)
    target.start(target.proxy)
    target.wait_serving()


def both_away(target, guest):
    """The ensemble's proxy is away, and the one on the client's host is killed: it begins with the routes that it has kept."""
    target.kill(target.proxy)
    (guest.folder / DIES).touch()
    time.sleep(AWAY_SECONDS)
    target.start(target.proxy)
    target.wait_serving()


def without(target, name):
    target.kill_and_start(name)
    target.wait_serving()


def read_elsewhere(target):
    """Another client, which mounts the virtual address, finds the same bytes."""
    with target.client(["bash", "-c", "cat digests; echo; md5sum $(python3 -c 'import json; print(*json.load(open(\"digests\")))')"]) as guest:
        if guest.wait() != 0:
            return say(False, "another client reads them", guest.text[-500:])
    digests, *read = guest.text.strip().splitlines()
    wrong = [line for line in read if json.loads(digests).get(line.split()[1]) != line.split()[0]]
    return say(len(read) == len(json.loads(digests)) and not wrong, "another client, by the virtual address, reads the same", wrong)


def client_proxy(target, options):
    with target.client(["mkdir", FOLDER]) as guest:
        if guest.wait() != 0:
            return say(False, "mkdir", guest.text)
    target.slicectl("policy", "set", f"/{FOLDER}", "--copies", "2")
    with target.client(command(target, int(4 * max(1, options.scale))), mount=False, timeout=GUEST_SECONDS) as guest:
        if not guest.says("\nready\n"):
            return say(False, "the client does its work", f"{guest.wait()} {guest.text[-2000:]}")
        print(guest.text[:guest.text.index("\nwritten\n") + 1], end="", flush=True)
        client = stalls.Client(guest)
        before = proxied(target)
        time.sleep(3)
        ok = say(proxied(target) - before <= 2, "its requests go to servers, and not by the ensemble's proxy", proxied(target) - before)
        ok &= longest_while(client, "the ensemble's proxy is away", UNNOTICED, lambda: without_proxy(target))
        ok &= longest_while(client, "it is away, and the proxy on the client's host is killed", KEPT, lambda: both_away(target, guest))
        ok &= longest_while(client, "a directory server is killed and started again", LONGEST, lambda: without(target, target.servers("dir")[0]))
        ok &= longest_while(client, "a small-file server is killed and started again", LONGEST, lambda: without(target, target.servers("small")[0]))
        seen = client.end()
        ok &= say(seen is not None, "no error", guest.text[-2000:])
    ok &= read_elsewhere(target)
    with target.client(["bash", "-c", f"rm -r {FOLDER} bytes-* digests client-proxy-names"]) as guest:
        return ok & say(guest.wait() == 0, "rm -r", guest.text)
