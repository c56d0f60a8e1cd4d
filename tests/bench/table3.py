#!/usr/bin/env python3
"""The paper's Table 3: what the proxy costs in processor time, by stage.

    table3.py [--json] [--rate N] [--interval S] [--rounds N] [--packets N] [--parts xdp,udp,tcp] [--folder DIR]

xdp: nanoseconds of each stage of the XDP program for a packet, by BPF_PROG_RUN over programs that end after each stage
(tests/packet/stages.bpf.c); the packets a second that one processor carries; the share of one at --packets a second, the paper's 6,250.
udp: the SPEC-like mix through a local ensemble over UDP, with kernel.bpf_stats_enabled: the XDP program's runs and nanoseconds a run, and its
and slice-proxyd's part of all processor time (servers, proxy and load generator together).
tcp: the same mix over TCP, which slice-proxyd carries: its time for an operation in the kernel (sockets) and outside of it (framing, decoding,
routing, patching), and its part of all."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import bench
import peers

PATHS = {"read": "READ", "getattr": "GETATTR", "lookup": "LOOKUP", "write_1k": "WRITE 1 KiB", "reply_getattr": "reply"}
# In the paper's words, and in the order in which a request and a reply come to them.
REQUEST = ["intercepted", "decoded", "attributes", "routed", "pending", "whole"]
REPLY = ["intercepted", "pending", "decoded", "attributes", "whole"]
MEANING = {"intercepted": "packet interception", "decoded": "packet decode", "routed": "routing decision", "whole": "redirection, rewriting",
           "attributes": "soft state: attributes", "pending": "soft state: pending requests"}
WHOLE = {"read": "read", "getattr": "getattr", "lookup": "lookup", "write_1k": "write_1k", "reply_getattr": "reply_getattr_learned"}
STATISTICS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")


def stages_of(options):
    """{path: {stage: nanoseconds}}, with the program's own time for the same packet as "program"."""
    order = {path: REPLY if path.startswith("reply") else REQUEST for path in PATHS}
    wanted = [f"cut_{path}_{stage}" for path in PATHS for stage in order[path]] + list(WHOLE.values())
    done = subprocess.run([options.build / "bench/xdp_bench", "--json", "--rounds", str(options.rounds), "--only", ",".join(wanted)],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit("xdp_bench failed")
    said = {figure["name"]: figure["value"] for figure in json.loads(done.stdout)["figures"]}
    costs = {}
    for path in PATHS:
        before, costs[path] = 0.0, {}
        for stage in order[path]:
            upto = said[f"cut_{path}_{stage}_run"]
            costs[path][stage] = upto - before
            before = upto
        costs[path]["all"], costs[path]["program"] = before, said[f"{WHOLE[path]}_run"]
        costs[path]["live"] = said[f"{WHOLE[path]}_live"]
    return costs


def show_stages(options, costs, figures):
    rows = [["ns a packet", *PATHS.values()]]
    for stage in ("intercepted", "decoded", "routed", "whole", "attributes", "pending"):
        rows.append([MEANING[stage], *(f"{costs[path][stage]:.1f}" if stage in costs[path] else "-" for path in PATHS)])
    for name, label in (("all", "all stages"), ("program", "the program itself"), ("live", "a frame, sent on")):
        rows.append([label, *(f"{costs[path][name]:.1f}" for path in PATHS)])
    for name, label in (("program", "packets/s of one processor, program"), ("live", "packets/s of one processor, frames")):
        rows.append([label, *(f"{1e9 / costs[path][name]:,.0f}" for path in PATHS)])
    rows.append([f"% of a processor at {options.packets}/s", *(f"{costs[path]['live'] * options.packets / 1e7:.3f}" for path in PATHS)])
    for path, stages in costs.items():
        figures += [bench.figure(f"xdp_{path}_{stage}", "ns/packet", cost) for stage, cost in stages.items()]
        figures.append(bench.figure(f"xdp_{path}_at_{options.packets}_a_second", "% of a processor", stages["live"] * options.packets / 1e7))
    return bench.table(rows)


def times(pid):
    """Seconds of user and kernel time."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11:13]]


@contextlib.contextmanager
def bpf_statistics():
    """The kernel counts runs and time of BPF programs meanwhile."""
    before = STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        yield
    finally:
        STATISTICS.write_text(before)


def xdp_programs(slice_):
    """Numbers of the XDP programs that are attached within the proxy's namespace."""
    words = bench.uml.in_netns(slice_.facts["proxy"], "ip", "-json", "-details", "link")
    found = set()
    for link in json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout):
        xdp = link.get("xdp", {})
        found |= {each["prog"]["id"] for each in [xdp, *xdp.get("attached", [])] if "prog" in each}
    return found


def gauges_of(slice_, programs):
    """What peers.measure() asks before and after an interval."""
    proxy = next(pid for name, pid in slice_.pids().items() if name.startswith("proxy"))

    def gauges():
        user, kernel = times(proxy)
        grown = {"proxy_user": user, "proxy_kernel": kernel, "runs": 0, "xdp": 0}
        for number in programs:
            said = json.loads(subprocess.run(["bpftool", "--json", "prog", "show", "id", str(number)], check=True, capture_output=True,
                                             text=True).stdout)
            grown["runs"] += said.get("run_cnt", 0)
            grown["xdp"] += said.get("run_time_ns", 0) / 1e9
        return grown
    return gauges


def mix(options, transport):
    """What the mix at one rate cost whom, in seconds, with operations and packets."""
    options.transport, options.rates = transport, str(options.rate)
    with bench.scratch(options) as folder, bench.ensemble(options, folder) as slice_, bpf_statistics():
        programs = xdp_programs(slice_) if transport == "udp" else set()
        report = peers.measure(options, folder, "Slice", bench.reach(slice_), gauges=gauges_of(slice_, programs), pin=False, keep=True)
    point = report["points"][0]
    operations = sum(each["completed"] for each in point["operations"].values())
    return {**point["grown"], "operations": operations, "violations": point["violations"], "generator": point["processor_seconds"],
            "servers": point["server_us"] * operations / 1e6, "achieved": point["achieved_per_second"]}


def show_mix(transport, spent, figures):
    """`spent` as lines, and its shares as figures. The XDP program runs within the time of whoever sends."""
    proxy, whole = spent["proxy_user"] + spent["proxy_kernel"], spent["servers"] + spent["generator"]
    each = 1e6 / max(1, spent["operations"])
    values = {"proxyd_user": (spent["proxy_user"] * each, "us/op"), "proxyd_kernel": (spent["proxy_kernel"] * each, "us/op"),
              "proxyd_share": (proxy / whole, "share of all"), "generator": (spent["generator"] * each, "us/op"),
              "servers_and_proxyd": (spent["servers"] * each, "us/op"), "achieved": (spent["achieved"], "op/s"),
              "violations": (spent["violations"], "replies")}
    if transport == "udp":
        values |= {"xdp": (spent["xdp"] * each, "us/op"), "xdp_runs": (spent["runs"] / max(1, spent["operations"]), "runs/op"),
                   "xdp_run": (1e9 * spent["xdp"] / max(1, spent["runs"]), "ns"), "xdp_share": (spent["xdp"] / whole, "share of all"),
                   "proxy_share": ((proxy + spent["xdp"]) / whole, "share of all")}
    figures += [bench.figure(f"{transport}_{name}", unit, value) for name, (value, unit) in values.items()]
    return bench.table([[f"mix over {transport}", "", ""], *([name, f"{value:.3f}", unit] for name, (value, unit) in values.items())])


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--parts", default="xdp,udp,tcp")
    parser.add_argument("--rounds", type=int, default=15, help="of BPF_PROG_RUN")
    parser.add_argument("--packets", type=int, default=6250, help="a second, for the share of a processor")
    parser.add_argument("--rate", type=int, default=4000, help="operations a second of the mix")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--bytes-per-op", default="50KiB", help="of the file set")
    parser.add_argument("--warm-up", type=float, default=2)
    parser.add_argument("--interval", type=float, default=10)
    options = parser.parse_args()
    options.mix, parts, figures, texts = "specsfs", options.parts.split(","), [], []
    if unknown := set(parts) - {"xdp", "udp", "tcp"}:
        parser.error(f"no such part: {', '.join(unknown)}")
    if "xdp" in parts:
        texts.append(show_stages(options, stages_of(options), figures))
    for transport in ("udp", "tcp"):
        if transport in parts:
            texts.append(show_mix(transport, mix(options, transport), figures))
    bench.finish(options, "table3", figures, "\n\n".join(texts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
