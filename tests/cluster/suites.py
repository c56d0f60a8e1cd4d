"""The suites of run.py: each is a function (target, options) -> bool that prints what it does."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import acls
import address
import away
import backing
import backup
import block_maps
import client_proxy
import crashes
import damage
import encryption
import failover
import failover_storm
import grow
import health
import hostile
import ipv6
import joining
import kerberos
import load
import locks
import lost_manager_state
import managers
import members
import metrics
import mirrors
import mount_options
import old_store
import page
import power_cut
import quotas
import refused
import reload
import rolling
import session_keys
import sites
import soak
import spread
import storms
import takeover
import tls
import tracing
import trees
import uml
import unprivileged
import volumes
import wanted
import xdp_proof

KERNEL_SERVER_MODULES = ("nfsd", "veth")
UP_SECONDS, DOWN_SECONDS = 2.0, 1.0  # between kills, and between a kill and the start after it


def find_programs(given):
    """The folder with the test programs: the one given, else the one built last."""
    built = [given] if given else sorted(uml.ROOT.glob("build/*/cluster"), key=lambda path: path.stat().st_mtime)
    if not built or not (built[-1] / "conformance").exists():
        raise SystemExit("the test programs are not built: cmake --build --preset dev")
    return built[-1].resolve()


def in_client(target, command, **settings):
    """Runs a command in one kernel client; true when it exits with 0."""
    with target.client([str(word) for word in command], output=sys.stdout, **settings) as guest:
        return guest.wait() == 0


def kernel_server(target, options):
    """`peers --systems kernel`, small, on a machine whose kernel has nfsd: the guest. Its figures say nothing, but there are some."""
    command = ["python3", uml.ROOT / "tests/bench/peers.py", "--json", "--systems", "kernel", "--on", "tmpfs", "--build", options.programs.parent, "--rates", "400",
               "--bytes-per-op", "50KiB", "--clients", "1", "--rounds", "1", "--warm-up", "1", "--interval", "3"]
    with target.client([str(word) for word in command], output=sys.stdout, mount=False, modules=KERNEL_SERVER_MODULES) as guest:
        code = guest.wait()
    if code != 0:
        return False
    figures = {figure["name"]: figure["value"] for figure in json.loads(guest.text[guest.text.index("{\n"):])["figures"]}
    # nfsd keeps files open for a while, and with them, on tmpfs, the handles of files that are removed meanwhile.
    wrong = [line for line in guest.text.splitlines() if " WRONG " in line and "finds a file by its handle that was removed" not in line]
    ok = figures["kernel_400_achieved"] > 0 and figures["kernel_400_cpu_total"] > 0 and not wrong
    print(f"{'ok' if ok else 'not ok'} kernel-server")
    return ok


def conformance(target, options):
    topics = options.only.split(",") if options.only else []
    with target.client([str(options.programs / "conformance"), ".", *topics], output=sys.stdout) as guest:
        code = guest.wait()
    return passed_or_known(target, guest.text, code)


def client(target, options):
    """The harness itself, and a mount as a newcomer types it: no ports given, rpcbind asked."""
    def expect(what, wanted, got):
        print(f"{'ok' if got == wanted else 'not ok'} client {what}{'' if got == wanted else f': {got}, wanted {wanted}'}")
        return got == wanted

    def run(*command, **settings):
        with target.client(list(command), **settings) as guest:
            return guest.wait(), guest.text
    marker = pathlib.Path("/etc/slice-guest-was-here")
    checks = [
        expect("exit code", 7, run("sh", "-c", "exit 7")[0]),
        expect("time limit", uml.EXIT_TIMEOUT, run("sleep", "60", timeout=8)[0]),
        expect("host is read-only", (1, False), (run("touch", str(marker))[0], marker.exists())),
        expect("plain mount", (0, "content\n"), run(
            "sh", "-c", f"cd / && mount -t nfs -o vers=3,nolock {target.server}:{target.export} /mnt && cd /mnt && "
            "echo content > plain && cat plain && rm plain && cd / && umount /mnt", mount=False, timeout=60)),
        expect("showmount", True, target.export in run("showmount", "-e", target.server, mount=False, timeout=60)[1].split()),
    ]
    return all(checks)


def libnfs(target, options):
    """libnfs's own tools: another client, over TCP."""
    # With "/" exported, two slashes: libnfs would take the export's name to be empty.
    address = (f"nfs://{target.server}{target.export}/FILE?version=3&nfsport={target.port}"
               f"&mountport={target.mount_port}")
    ok = True
    with tempfile.TemporaryDirectory(prefix="slice-libnfs-") as folder:
        for size in (0, 100, 8300, 65536, 65537, 300_000, 5_000_000):
            path = pathlib.Path(folder) / f"libnfs-{size}"
            path.write_bytes(random.Random(size).randbytes(size))
            remote = address.replace("FILE", path.name)
            copied = quietly(*uml.in_netns(target.netns, "nfs-cp", path, remote))
            back = pathlib.Path(folder) / "back"
            back.unlink(missing_ok=True)
            fetched = quietly(*uml.in_netns(target.netns, "nfs-cp", remote, back))
            same = back.exists() and back.read_bytes() == path.read_bytes()
            ok &= same
            print(f"{'ok' if same else 'not ok'} libnfs nfs-cp of {size} bytes"
                  f"{'' if same else ': ' + copied.stderr + fetched.stderr}")
        listed = quietly(*uml.in_netns(target.netns, "nfs-ls", address.replace("FILE", "")))
        names = "libnfs-65537" in listed.stdout
        print(f"{'ok' if names else 'not ok'} libnfs nfs-ls{'' if names else ': ' + listed.stdout + listed.stderr}")
    removed = in_client(target, ["sh", "-c", "rm -f libnfs-*"])
    return ok and names and removed


def everyday_command(options):
    command = ["python3", uml.ROOT / "tests/cluster/guest/everyday.py", ".", "--programs", options.programs,
               "--scale", options.scale, "--seed", options.seed]
    return command + (["--only", options.only] if options.only else [])


def everyday(target, options):
    return in_client(target, everyday_command(options), timeout=800 * max(1, options.scale))


def everyday_udp(target, options):
    """The same through a kernel built for UDP; it must have been built (build_udp_kernel.py)."""
    built = subprocess.run([sys.executable, uml.ROOT / "tests/cluster/build_udp_kernel.py", "--check"],
                           capture_output=True, text=True)
    if built.returncode != 0:
        print("not ok: the UDP kernel is not built: run tests/cluster/build_udp_kernel.py first")
        return False
    settings = {"timeout": 1800 * max(1, options.scale), "proto": "udp", "kernel": built.stdout.strip(),
                "options": "rsize=32768,wsize=32768"}
    if target.name != "slice":
        return in_client(target, everyday_command(options), **settings)
    with xdp_proof.XdpProof(target) as proof:
        ok = in_client(target, everyday_command(options), **settings)
    return proof.holds(["GETATTR", "SETATTR", "LOOKUP", "READ", "WRITE", "CREATE", "REMOVE", "RENAME"]) and ok


def close_to_open(target, options):
    """Two clients at once, a writer and a reader."""
    program, rounds = options.programs / "close_to_open", ["--rounds", str(int(60 * options.scale))]
    with target.client([str(program), "writer", ".", *rounds], output=sys.stdout) as writer:
        if not writer.says("ready"):
            print(f"not ok close_to_open: the writer does not get ready, exit code {writer.wait()}")
            return False
        with target.client([str(program), "reader", ".", *rounds], output=sys.stdout) as reader:
            return [reader.wait(), writer.wait()] == [0, 0]


def in_namespace(target, command, timeout):
    """Runs a user-space client in the target's client namespace; the text that it printed, and its exit code."""
    return uml.run_in_netns(target.netns, command, timeout)


def reach(target):
    return ["--server", target.server, "--export", target.export, "--port", target.port, "--mount-port",
            target.mount_port]


def passed_or_known(target, text, code):
    """True when nothing failed but what the target is known for."""
    failed = set(re.findall(r"^not ok (\S+ \S+):", text, re.MULTILINE))
    known = getattr(target, "known_failures", set())
    if failed & known:
        print(f"known of {target.name}: {', '.join(sorted(failed & known))}")
    return code == 0 or (code == 1 and bool(failed) and failed <= known)


def protocol(target, options, transport):
    command = [options.programs / "protocol", *reach(target), "--transport", transport]
    command += ["--slice"] if target.name == "slice" else []
    command += ["--only", options.only] if options.only else []
    if target.name == "slice" and target.has_xdp and transport == "udp" and not options.only:
        with xdp_proof.XdpProof(target) as proof:
            ok = passed_or_known(target, *in_namespace(target, command, 240))
        return proof.holds() and ok
    return passed_or_known(target, *in_namespace(target, command, 240))


def durability(target, options):
    """Every process in turn, and then all at once, is killed with SIGKILL under load and started again; nothing
    that was acknowledged may be gone, and the load may see no error. The checker itself is checked at the end: it must
    notice damage of every kind."""
    names = options.only.split(",") if options.only else list(target.process_names)
    rounds = [[name] for name in names for _ in range(max(1, int(options.scale)))]
    rounds += [names] if len(names) > 1 else []
    seconds = 2 + len(rounds) * (UP_SECONDS + DOWN_SECONDS + 1)
    with tempfile.TemporaryDirectory(prefix="slice-durability-") as folder:
        log = ["--log", f"{folder}/log"]
        command = [options.programs / "durability", "load", *reach(target), *log, "--seconds", int(seconds), "--seed",
                   options.seed, *(["--replays"] if target.name == "ganesha" else [])]
        result = []
        load = threading.Thread(target=lambda: result.append(in_namespace(target, command, seconds + 120)))
        load.start()
        try:
            for together in rounds:
                time.sleep(UP_SECONDS)
                print(f"kill -9 {' '.join(together)}", flush=True)
                for name in together:
                    target.kill(name)
                time.sleep(DOWN_SECONDS)
                for name in together:
                    target.start(name)
        finally:
            load.join()
        text, code = result[0]
        if code != 0:
            return False
        command = [options.programs / "durability", "verify", *reach(target), *log]
        if in_namespace(target, command, 120)[1] != 0:
            return False
        return durability_notices_damage(target, options, log)


def durability_notices_damage(target, options, log):
    print("the checker is checked: damage of four kinds follows, which it must notice", flush=True)
    program = options.programs / "durability"
    text, code = in_namespace(target, [program, "damage", *reach(target), *log], 60)
    damaged = set(re.findall(r"^damaged (\S+)", text, re.MULTILINE))
    text, verified = in_namespace(target, [program, "verify", *reach(target), *log], 120)
    noticed = set(re.findall(r"^not ok durability verify: (\S+)", text, re.MULTILINE))
    noticed.discard("durability-0/second-name")
    if code != 0 or verified != 1 or noticed != damaged:
        print(f"not ok durability: of damage to {sorted(damaged)} the checker noticed {sorted(noticed)}")
        return False
    print("ok durability: the checker noticed all of it")
    return True


def one_process(target, options):
    """An ensemble whose servers are one slice-hostd: what it serves, and what is left when it is killed under load."""
    with target.make("one", directories=2, one_process=True) as one:
        return all([protocol(one, options, "udp"), protocol(one, options, "tcp"), libnfs(one, options), conformance(one, options),
                    close_to_open(one, options), durability(one, options)])


def rebind(target, options):
    """Sites are bound to wrong servers with `bpftool map update`, class by class, under a load that notices every wrong
    byte and every error. Requests must have been relayed, and each entry put back by the proxy, which goes on with that
    for a while when the load has ended."""
    after = sites.rebind_after_load(target, "directory", lambda: rebind_load(target, options, "tcp", 1))
    return all([after, *(rebind_under(target, options, transport) for transport in ("udp", "tcp"))])


def rebind_load(target, options, transport, seconds, *more):
    command = [options.programs / "rebind", *reach(target), "--transport", transport, "--seconds", seconds, "--seed",
               options.seed, *more]
    return in_namespace(target, command, seconds + 120)[1] == 0


def rebind_under(target, options, transport):
    long = 3 * max(1, options.scale)
    at_most = int(300 + 10 * long * len(sites.CLASSES))  # the load goes on as long as sites are rebound, however slow that is
    result = []
    with tempfile.NamedTemporaryFile(prefix="slice-rebind-", delete=False) as wanted:
        pass
    load = threading.Thread(target=lambda: result.append(rebind_load(target, options, transport, at_most, "--while", wanted.name)))
    load.start()
    try:
        time.sleep(2)
        ok = all([sites.rebind_under_load(target, transport, site_class, long) for site_class in sites.CLASSES])
    finally:
        os.unlink(wanted.name)
        load.join()
    return result[0] and ok


def selftest(target, options):
    """The checks notice what they are there for: a changed byte in a tree, and one in fsx's file behind its back."""
    with tempfile.TemporaryDirectory(prefix="slice-selftest-", dir="/var/tmp") as folder:
        return tree_notices_damage(options, pathlib.Path(folder)) and fsx_notices_damage(options, pathlib.Path(folder))


def quietly(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def tree_notices_damage(options, folder):
    tree = options.programs / "tree"
    numbers = ["--files", "200", "--largest", "100000"]
    quietly(tree, "make", folder / "tree", *numbers)
    if quietly(tree, "verify", folder / "tree", *numbers).returncode != 0:
        print("not ok selftest tree: a fresh tree is said to be damaged")
        return False
    victim = next(path for path in sorted((folder / "tree").rglob("file-*")) if path.stat().st_size > 1000)
    times = victim.stat()
    change_byte(victim, 500)
    os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = quietly(tree, "verify", folder / "tree", *numbers)
    noticed = after.returncode == 1 and str(victim) in after.stdout
    print(f"{'ok' if noticed else 'not ok'} selftest tree: a changed byte is noticed")
    return noticed


def fsx_notices_damage(options, folder):
    path = folder / "fsx"
    with subprocess.Popen([str(options.programs / "fsx"), str(path), "--ops", "10000000"], stdout=subprocess.PIPE,
                          text=True) as fsx:
        end = time.monotonic() + 30
        while fsx.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
            change_middle_of(fsx, path)
        fsx.kill()
        said = fsx.stdout.read()
    noticed = fsx.returncode == 1 and "differ" in said
    print(f"{'ok' if noticed else 'not ok'} selftest fsx: a changed byte is noticed")
    return noticed


def change_middle_of(process, path):
    """Behind the back of the process, which stands still meanwhile: were the file cut, the byte would make it longer again."""
    os.kill(process.pid, signal.SIGSTOP)  # not send_signal(), which would take an exit code that the next line waits for
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    if path.exists() and path.stat().st_size > 0:
        change_byte(path, path.stat().st_size // 2)
    os.kill(process.pid, signal.SIGCONT)


def change_byte(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([(byte or b"\0")[0] ^ 1]))


SUITES = {
    "conformance": (conformance, "Connectathon-style and pjdfstest-style tests by one kernel client"),
    "everyday": (everyday, "untar, compile, cp -a, git, sqlite, fsx, renames, links, users by one kernel client"),
    "everyday-udp": (everyday_udp, "the same over UDP, by a kernel built for it (build_udp_kernel.py)"),
    "client": (client, "the harness itself, and a mount without ports, through rpcbind"),
    "acls": (acls.acls, "access control lists on a kernel client, beside those of a tmpfs: the same outcomes, also while servers die and sites move"),
    "quotas": (quotas.quotas, "users and groups of a kernel client reach their limits; what servers count is what there is, also behind deaths and moves of sites"),
    "trees": (trees.trees, "directories with exports and a quota of their own: a kernel client, callers by hand, servers that die and sites that move"),
    "volumes": (volumes.volumes, "raw volumes: block clients of others, fio with every byte checked, a file system; servers die, and another host opens one"),
    "locks": (locks.locks, "kernel clients lock files of one volume; clients and every server are killed meanwhile: no lock is lost, none is had by two"),
    "options": (mount_options.options, "each option of nfs(5) and each word of exports(5), as docs/options.md has it"),
    "libnfs": (libnfs, "libnfs's own tools copy files in and out"),
    "close-to-open": (close_to_open, "two kernel clients at once see each other's work"),
    "durability": (durability, "kill -9 of each process under load: nothing acknowledged may be lost"),
    "block-maps": (block_maps.block_maps, "files placed by free space, whose stripes are moved while a client writes them; the coordinator is killed meanwhile"),
    "crashes": (crashes.crashes, "every crash point of every server: who dies, at which point, during which operation; nothing acknowledged lost"),
    "damage": (damage.damage, "a region of a file of a server is damaged, everything starts: refused, repaired or answered as an error, never silence"),
    "mirrors": (mirrors.mirrors, "files with two copies: storage nodes killed under load, copies made whole again, every byte right"),
    "power-cut": (power_cut.power_cut, "the power of servers' hosts is cut under load: nothing acknowledged lost; a sync that is missing is noticed"),
    "one-process": (one_process, "every role in one process: protocol, real clients, kill -9 under load"),
    "proxy-restart": (takeover.proxy_restart, "a proxy killed and back at once: how long a kernel client stands still"),
    "client-proxy": (client_proxy.client_proxy, "a kernel client that mounts by mount.slice, from a proxy on its own host: which is killed, as servers and the ensemble's proxy are"),
    "rebind": (rebind, "sites bound to wrong servers by bpftool under load: relayed, reported, put back, no error seen"),
    "hostile": (hostile.hostile, "attacks of clients, one after another, beside a kernel client and slice-load: what is others' is untouched, and served"),
    "kernel-server": (kernel_server, "the kernel's own NFS server as a peer of benchmarks, in a guest whose kernel has one"),
    "backup": (backup.backup, "a backup is taken under load; disks of a directory server, the small-file server and the manager are lost and made anew from it: no wrong byte"),
    "lost-manager-state": (lost_manager_state.lost_manager_state, "a manager that lost its state takes the tables from the others, and servers go by their own records: no byte is looked for elsewhere"),
    "grow": (grow.grow, "storage nodes are added and one is emptied while all work and some are killed: sites move with their data, nobody sees an error"),
    "health": (health.health, "servers and the manager are killed and come back: slicectl status names what is wrong and its cure, exit codes, --watch"),
    "join": (joining.joining, "docs/install.md: with session keys, certificates and its firewall on each host, a fourth host joins; who is no host reaches no server"),
    "backing": (backing.backing, "servers that keep what they have on storage nodes lose their hosts, and nodes go"),
    "failover": (failover.failover, "servers die, vanish, stop and are wanted elsewhere, and others that stand by take over"),
    "failover-storm": (failover_storm.failover_storm, "hosts of every kind go and come back at random, those of managers and etcd too: no error, nothing acknowledged is missing"),
    "soak": (soak.soak, "for an hour half of what it can do, while hosts go and come back: no error, and no process grows"),
    "managers": (managers.managers, "three managers over etcd: who leads dies, is stopped and goes on, etcd dies, all of it dies: another one leads, and no client notices"),
    "members": (members.members, "a storage node comes, goes for good and comes again, as docs/operations.md says: what was removed is refused, and no byte is missed"),
    "old-store": (old_store.old_store, "stores that programs of before have left are opened: every name, attribute and byte is as it was"),
    "reload": (reload.reload, "exports and limits change under a mounted kernel client, without a restart of anybody"),
    "rolling": (rolling.rolling, "every process is restarted, one after another, under a kernel client and slice-load: nobody sees an error"),
    "trace": (tracing.trace, "one storage node's disk is slow: slicectl trace names it, hop by hop, and slicectl top who causes the load"),
    "spread": (spread.spread, "three proxies that share the clients over TCP: one is killed, cut off, stopped, stands still; others' clients are to notice nothing"),
    "address": (address.address, "two proxies at one virtual address: the one that has it is killed, cut off, stopped, stands still; a client is to notice little"),
    "address6": (address.address6, "the same with an address of IPv6 beside, by which the client goes"),
    "away": (away.away, "a storage node is away: a client that writes to it waits with that alone, and others with nothing"),
    "wanted": (wanted.wanted, "storage sites are moved with their data by bpftool: `sites` follows, every byte is right, wrong entries are cleared"),
    "storm": (storms.storm, "trees unpacked and names moved by several clients at once over 1, 2, 4 directory servers, both policies"),
    "storm-kill": (storms.storm_kill, "the same under kill -9 of directory servers: nothing acknowledged lost, no wrong status"),
    "encryption": (encryption.encryption, "clients that ask for TLS: nothing to be read, exports that want it take nothing else, certificates come and go"),
    "kerberos": (kerberos.kerberos, "users who show tickets: sec=krb5, krb5i, krb5p by kernel clients and by hand; contexts end, the proxy and the KDC are away"),
    "kerberos-peer": (kerberos.kerberos_of_peer, "the same against NFS-Ganesha"),
    "ipv6": (ipv6.ipv6, "a volume with addresses of both families: mounts, locks, exports and loads by either, and servers of IPv6 alone"),
    "tls": (tls.tls, "sessions over TLS: nothing to be read between members, a revoked certificate is nobody's"),
    "page": (page.page, "slice-webd: what Chromium shows of an ensemble, in light and dark, and what others get of it"),
    "metrics": (metrics.metrics, "Prometheus scrapes an ensemble under load and attack: clean texts, right figures, alerts, the dashboard"),
    "session-keys": (session_keys.session_keys, "session keys are changed under a load; who has the old one is a stranger afterwards"),
    "unprivileged": (unprivileged.unprivileged, "servers confined as their systemd units say: user, capabilities, system calls"),
    "refused": (refused.refused, "a kernel that refuses the XDP program: told once and in the status, and user space serves UDP whole"),
    "selftest": (selftest, "the tests' own checks notice damage (needs no volume)"),
    "load": (load.load, "slice-load, the load generator, finds nothing wrong; its workers, comparison and pictures"),
    "udp": (lambda target, options: protocol(target, options, "udp"), "every procedure over UDP, by a client of our own"),
    "tcp": (lambda target, options: protocol(target, options, "tcp"), "the same over TCP"),
}
OWN_ENSEMBLES = {"acls", "trees", "volumes", "away", "kerberos", "kerberos-peer", "address6", "ipv6", "quotas", "address", "locks", "spread", "backing", "failover", "failover-storm", "soak", "backup", "old-store", "rolling", "storm", "storm-kill", "crashes", "damage", "one-process", "hostile", "power-cut", "refused", "unprivileged", "session-keys", "encryption", "tls", "metrics", "page", "lost-manager-state", "managers", "grow", "join", "members", "reload", "wanted", "health", "trace"}  # bring up ensembles of their own
