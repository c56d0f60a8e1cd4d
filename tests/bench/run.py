#!/usr/bin/env python3
"""Runs one benchmark, set up and torn down by itself:  ./slice bench NAME [--json] [ARGS...]

With --json the last thing printed is one object: {"benchmark": NAME, "figures": [{"name", "unit", "value"}, ...]}.
Benchmarks are never tests: nothing here passes or fails by time. docs/measuring.md says what each figure means; `fuzz` is a test, and
fails where a process does."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"


def google(program, *arguments):
    """A Google Benchmark program: its own table, or its JSON brought into our form."""
    def go(name, as_json, extra):
        command = [BUILD / "bench" / program, *arguments, *extra]
        if not as_json:
            return subprocess.run(command).returncode
        done = subprocess.run([*command, "--benchmark_format=json"], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            return done.returncode
        figures = []
        for each in json.loads(done.stdout)["benchmarks"]:
            figures.append({"name": each["name"], "unit": each["time_unit"] + "/iteration", "value": each["cpu_time"]})
            if "bytes_per_second" in each:
                figures.append({"name": each["name"] + "/throughput", "unit": "B/s", "value": each["bytes_per_second"]})
        print(json.dumps({"benchmark": name, "figures": figures}, indent=1))
        return 0
    return go


def command(*words):
    """A program that speaks --json itself."""
    def go(_, as_json, extra):
        # In our own place, so that who signals us signals what has to clean up.
        sys.stdout.flush()
        os.execv(words[0], [*map(str, words), *(["--json"] if as_json else []), *extra])
    return go


BENCHMARKS = {
    "all": (command(sys.executable, ROOT / "tests/bench/all.py"),
            "all of these one after another, each bounded, into one folder; --short: small forms, to see that they work"),
    "xdp": (command(BUILD / "bench/xdp_bench"), "nanoseconds per packet of the XDP program, beside a bare XDP_TX"),
    "ops": (command(sys.executable, ROOT / "tests/bench/ops.py"),
            "operations and MB per second through the proxy over TCP, beside NFS-Ganesha, with CPU per operation"),
    "peers": (command(sys.executable, ROOT / "tests/bench/peers.py"),
              "a SPEC-like load (slice-load) at several offered rates, beside NFS-Ganesha: throughput, latency, CPU; pictures"),
    "store": (command(sys.executable, ROOT / "tests/bench/store.py"),
              "READ and WRITE of 1 MiB straight to a storage node on a disk, beside fio on the same disk, with CPU per GiB"),
    "block": (command(sys.executable, ROOT / "tests/bench/block.py"),
              "fio on a raw volume by slice-blockd, beside nbdkit and qemu-nbd: rate, latency, CPU at several depths; flushes"),
    "aoe": (command(sys.executable, ROOT / "tests/bench/aoe.py"),
            "fio on a raw volume by ATA over Ethernet, with a kernel's own driver, beside vblade: rate, latency, CPU at several depths"),
    "bigdir": (command(sys.executable, ROOT / "tests/bench/bigdir.py"),
               "a directory as it grows to --entries names (1 million): cost of operations, memory, disk; emptying it"),
    "figure3": (command(sys.executable, ROOT / "tests/bench/figure3.py"),
                "the paper's Figure 3: the untar load over 1, 2, 4, 8 directory servers, by processor time and by simulation"),
    "scale": (command(sys.executable, ROOT / "tests/bench/scale.py"),
              "a SPEC-like load over 1, 2, 4, 8 servers of each role, each with a small share of a processor: speed-up, evenness"),
    "proxies": (command(sys.executable, ROOT / "tests/bench/proxies.py"),
                "NFS over TCP over 1, 2, 4 proxies that share the clients, each with a small share of a processor: speed-up, evenness"),
    "figure4": (command(sys.executable, ROOT / "tests/bench/figure4.py"),
                "the paper's Figure 4: the untar load over directory affinity, 1 to 16 client processes, four servers"),
    "figure5": (command(sys.executable, ROOT / "tests/bench/figure5.py"),
                "the paper's Figure 5: a SPEC-like load's throughput over 1, 2, 4, 8 nodes with emulated disk arms"),
    "figure6": (command(sys.executable, ROOT / "tests/bench/figure5.py", "--figure", "6"),
                "the paper's Figure 6: its latency over the throughput that was delivered"),
    "table3": (command(sys.executable, ROOT / "tests/bench/table3.py"),
               "the paper's Table 3: processor time of the proxy by stage, XDP and TCP, and its part of all in a SPEC-like load"),
    "balance": (command(sys.executable, ROOT / "tests/bench/balance.py"),
                "how evenly entries lie over directory servers and sites, with chi-square"),
    "cross-site": (command(sys.executable, ROOT / "tests/bench/cross_site.py"),
                   "operations over two directory servers beside those on one: rate, calls between servers, log writes"),
    "fairness": (command(sys.executable, ROOT / "tests/bench/fairness.py"),
                 "20 normal clients alone and beside one that takes all it can: the slowest hundredth of their operations"),
    "switch": (command(sys.executable, ROOT / "tests/bench/switch.py"),
               "how long requests are held when sites move while a client works on them: up to 1 million names, 100,000 small files"),
    "table2": (command(sys.executable, ROOT / "tests/bench/table2.py"),
               "the paper's Table 2: bandwidth of 1 and 8 clients over 1, 2, 4, 8 throttled storage nodes, mirrored and not"),
    "grow": (command(sys.executable, ROOT / "tests/bench/grow.py"),
             "3 throttled storage nodes become 4 and 8 under full load: bandwidth over time, bytes moved, the slowest operation; a picture"),
    "acls": (command(sys.executable, ROOT / "tests/bench/acls.py"),
             "what access control lists cost a kernel client that makes and shows files, and how many calls it makes"),
    "encryption": (command(sys.executable, ROOT / "tests/bench/client_tls.py"),
                   "what TLS over clients' connections costs: small calls and large ones, in clear and through it, in turns"),
    "kerberos": (command(sys.executable, ROOT / "tests/bench/kerberos.py"),
                 "what RPCSEC_GSS costs: small calls and large ones by AUTH_SYS, krb5, krb5i and krb5p, in turns, beside NFS-Ganesha; contexts"),
    "locks": (command(sys.executable, ROOT / "tests/bench/locks.py"),
              "LOCK and UNLOCK by NLM beside NFS-Ganesha: rate, CPU; and how long a lock is waited for after a server's death"),
    "failover": (command(sys.executable, ROOT / "tests/bench/failover.py"),
                 "how long a client stands still when another host takes a server over: killed, vanished, stopped, planned; a picture"),
    "takeover": (command(sys.executable, ROOT / "tests/bench/takeover.py"),
                 "how long a client stands still when a server with a million names, or many small files, is taken over by its standby"),
    "client-proxy": (command(sys.executable, ROOT / "tests/bench/client_proxy.py"),
                     "calls by a proxy on the client's own host and by the virtual address, in turns: rate, CPU"),
    "units": (command(sys.executable, ROOT / "tests/bench/units.py"),
              "records of 1 MiB by the stripe unit of their files, beside NFS-Ganesha: rate, CPU"),
    "backing": (command(sys.executable, ROOT / "tests/bench/backing.py"),
                "what servers cost that keep on storage nodes what others keep on a disk of their own: rate, CPU"),
    "fuzz": (command(sys.executable, ROOT / "tests/bench/fuzz.py"),
             "mutated calls, records and frames to every port of every process; whether all live, serve, and keep what is others'"),
    "rpc": (google("rpc_bench"), "codec, and null calls over loopback"),
    "proxy": (google("proxy_bench"), "records through the proxy's TCP path, beside a direct connection"),
    "dirserver": (google("dirserver_bench"), "directory operations inside one process"),
    "smallfile": (google("smallfile_bench"), "small-file reads and writes inside one process"),
    "storagenode": (google("storagenode_bench"), "object reads and writes inside one process"),
    "tracer": (google("tracer_bench"), "what it costs to measure an operation, and not to"),
}


def main():
    words = sys.argv[1:]
    as_json = "--json" in words
    words = [w for w in words if w != "--json"]
    if not words or words[0] in ("-h", "--help") or words[0] not in BENCHMARKS:
        if words and words[0] not in ("-h", "--help"):
            print(f"bench: no such benchmark: {words[0]}", file=sys.stderr)
        print(__doc__ + "\n\nBenchmarks:")
        for name, (_, about) in BENCHMARKS.items():
            print(f"  {name:12} {about}")
        return 0 if not words or words[0] in ("-h", "--help") else 2
    return BENCHMARKS[words[0]][0](words[0], as_json, words[1:])


if __name__ == "__main__":
    sys.exit(main())
