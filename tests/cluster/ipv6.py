"""The suite `ipv6`: a volume with a virtual address of either family (docs/ipv6.md). Kernel clients that know nothing of each other's family mount it
by the one and by the other, as a newcomer types it, read what the other wrote, and lock files against each other; slice-load checks every reply over
TCP and UDP while servers are killed; exports are for networks of either family. Then an ensemble whose servers have addresses of IPv6 alone."""

import pathlib
import re
import sys

import load
import locks
import uml
from client_proxy import proxied

LOAD_SECONDS, PATIENCE = 12, 40
KILLED = ("dir", "small", "store", "coord", "proxy")
CLIENTS, ELSEWHERE = "fd77:0:0:1::/64", "fd77:0:0:9::/64"


def say(ok, what, got=""):
    print(f"{'ok' if ok else 'not ok'} ipv6 {what}{'' if ok or got == '' else f': {got}'}", flush=True)
    return bool(ok)


class ByIpv6:
    """The target as its clients of IPv6 see it."""

    def __init__(self, target):
        self.target, self.server = target, target.facts["virtual6"]

    def __getattr__(self, name):
        return getattr(self.target, name)

    def client(self, command, **settings):
        return uml.Guest(self.target.netns, self.server, [str(word) for word in command], export=self.target.export, **settings)


def run(target, *command, **settings):
    with target.client([str(word) for word in command], **settings) as guest:
        return guest.wait(), guest.text


def found_by_rpcbind(target):
    """Ports are asked of RPCBIND version 4, and MOUNT tells of the exports."""
    def ask(*words):
        return uml.run_in_netns(target.netns, words, 20, output=None)
    text, code = ask("rpcinfo", "-s", target.server)
    programs = {line.split()[0]: line for line in text.splitlines() if line.strip()[:1].isdigit()}
    ok = say(code == 0 and {"100003", "100005", "100021", "100227", "100011"} <= programs.keys() and "tcp6" in programs["100003"] and "udp6" in programs["100003"],
             "rpcinfo finds every program by tcp6 and udp6", text)
    text, code = ask("showmount", "-e", "--no-headers", target.server)
    ok &= say(code == 0 and "fd77::/16" in text and "10.77.0.0/16" in text, "showmount tells of networks of both families", text)
    code, text = run(target, "sh", "-c", f"cd / && mount -t nfs [{target.server}]:{target.export} /mnt && echo words > /mnt/plain && cat /mnt/plain && "
                     "grep ' /mnt nfs ' /proc/mounts && umount /mnt", mount=False, locks=True, timeout=90)
    return ok & say(code == 0 and text.startswith("words") and "proto=tcp6" in text and f"addr={target.server}" in text, "mount -t nfs, and no option", text[-600:])


def everyday(six, options):
    some = ("--only", options.only) if options.only else ()
    return say(run(six, "python3", uml.ROOT / "tests/cluster/guest/everyday.py", ".", "--programs", options.programs, "--scale", options.scale / 4, "--seed",
                   options.seed, *some, timeout=900, output=sys.stdout)[0] == 0, "everyday work over IPv6")


def one_volume(four, six):
    """What one family's client writes the other's reads, byte by byte."""
    code, text = run(six, "sh", "-c", "head -c 3000000 /dev/urandom > both && sync both && md5sum both && stat -c '%s %Y %h' both && setfacl -m u:77:r both")
    seen = run(four, "sh", "-c", "md5sum both && stat -c '%s %Y %h' both && getfacl -n both | grep user:77")[1]
    return say(code == 0 and seen.startswith(text) and "user:77:r--" in seen, "a client of IPv4 finds its bytes, times and lists", (text, seen))


def locked(four, six):
    """A client of each family; who waits is told, from the address that it mounted."""
    with locks.client(six, locks.FIRST) as one, locks.client(four, locks.SECOND) as other:
        return say(locks.rules(one, other), "locks between the families") & say(locks.waits(one, other), "who waits is told, IPv6's client by IPv4's")


def exported(target):
    """Exports are for networks of either family."""
    config = pathlib.Path(target.facts["config"])
    before = config.read_text()

    def exports(*entries):
        """Each of clients and access, in place of the one that there is."""
        made = "".join(f'[[export]]\nclients = "{clients}"\naccess = "{access}"\nsquash = "none"\n\n' for clients, access in entries)
        config.write_text(re.sub(r"^\[\[export\]\].*?(?=^\[\[server\]\])", made, before, count=1, flags=re.MULTILINE | re.DOTALL))
        done = target.slicectl("reload", check=False)
        return say(done.returncode == 0, f"exports are {entries}", done.stdout + done.stderr)
    ok = say(run(target, "sh", "-c", "echo words > there")[0] == 0, "a client writes")
    ok &= exports(("10.77.0.0/16", "rw"), (CLIENTS, "ro"))
    code, text = run(target, "sh", "-c", "cat there; touch new")
    ok &= say(code != 0 and text.startswith("words") and "Read-only file system" in text, "IPv6's clients may read alone", text)
    ok &= exports(("10.77.0.0/16", "rw"), ("0.0.0.0/0", "rw"), (ELSEWHERE, "rw"))
    code, text = run(target, "true", timeout=60)
    ok &= say(code == uml.EXIT_NO_BOOT, "and none of theirs: they may not mount, and 0.0.0.0/0 is not for them", text)
    ok &= exports(("*", "rw"))
    ok &= say(run(target, "sh", "-c", "echo more >> there")[0] == 0, "but * is")
    config.write_text(before)
    return ok & say(target.slicectl("reload", check=False).returncode == 0, "as it was")


def by_own_proxy(six, directly):
    """mount.slice: to servers of the same family by itself, to others by the virtual address."""
    program, before = six.bin_dir.resolve() / "slice-clientd", proxied(six)
    script = (f"ln -s {program} /tmp/mount.slice && /tmp/mount.slice '[{six.server}]:/' /mnt -o proto=tcp6 && cd /mnt && mkdir own && cd own && "
              "for i in $(seq 50); do echo $i > $i; done && head -c 3000000 /dev/urandom > big && sync big && echo 3 > /proc/sys/vm/drop_caches && "
              "cat big | wc -c && cat $(seq 50) | wc -l && cd .. && rm -r own && grep ' /mnt nfs ' /proc/mounts; code=$?; cd /; umount /mnt; exit $code")
    code, text = run(six, "bash", "-c", script, mount=False, timeout=120)
    right = code == 0 and text.startswith("3000000\n50\n") and f"[{six.server}]:/ /mnt nfs" in text and f"mountaddr={six.server}" in text
    calls = proxied(six) - before
    return say(right, "mount.slice by IPv6", (code, text[-800:])) & say((calls < 10) == directly, f"with {calls} calls by the ensemble's proxy", directly)


def load_goes_on(target, options, transport, kills):
    """slice-load, every reply checked."""
    processes = [target.processes_of(target.servers(kind))[0] for kind in kills]
    good, said = load.while_killed(target, options, processes, LOAD_SECONDS, PATIENCE, "--transport", transport)
    return say(good, f"a load over {transport}" + (f" goes on while {', '.join(kills)} are killed" if kills else ""), said)


def whole(target):
    done = target.slicectl("fsck", check=False)
    return say(done.returncode == 0, "fsck finds nothing", done.stdout[-500:])


def ipv6(ensembles, options):
    with ensembles.make("ipv6", ipv6="clients", directories=2) as four:
        six = ByIpv6(four)
        ok = found_by_rpcbind(six) & one_volume(four, six) & locked(four, six) & by_own_proxy(six, directly=False) & exported(six)
        ok &= load_goes_on(six, options, "udp", ()) & load_goes_on(six, options, "tcp", KILLED) & whole(four)
    with ensembles.make("ipv6", ipv6="all", directories=2) as four:
        six = ByIpv6(four)
        addresses = {name: address for name, address in four.facts["addresses"].items()}
        ok &= say(all(":" in address for address in addresses.values()), "no server has an address of IPv4", addresses)
        ok &= one_volume(four, six) & by_own_proxy(six, directly=True) & everyday(six, options)
        for target in (six, four):
            ok &= load_goes_on(target, options, "udp", ())
        return ok & load_goes_on(six, options, "tcp", KILLED) & whole(four)
