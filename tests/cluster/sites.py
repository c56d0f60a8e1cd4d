"""The pinned table of sites, as an operator sees and changes it with bpftool (docs/formats/maps.md)."""

import json
import subprocess
import time
import tomllib

CLASSES = ("directory", "small-file", "storage", "coordinator")  # by number
SITES_OF_A_CLASS = 4096  # keys
REBOUND = 64  # sites of each class
PUT_BACK_SECONDS = 5


class SiteTable:
    def __init__(self, target):
        with open(target.facts["config"], "rb") as file:
            config = tomllib.load(file)
        self.pinned = f"{config['proxy']['bpf_folder']}/sites"
        self.servers = {number: server for number, server in enumerate(config["server"], start=1)}

    def _bpftool(self, verb, key, *words):
        key = [str(byte) for byte in key.to_bytes(4, "little")]
        command = ["bpftool", "--json", "map", verb, "pinned", self.pinned, "key", *key, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def read(self, key):
        """(number of the server, generation)"""
        value = bytes(int(byte, 16) for byte in json.loads(self._bpftool("lookup", key))["value"])
        return int.from_bytes(value[:4], "little"), int.from_bytes(value[4:], "little")

    def write(self, key, server, generation):
        value = server.to_bytes(4, "little") + generation.to_bytes(4, "little")
        self._bpftool("update", key, "value", *[str(byte) for byte in value])

    def wrong_server(self, number):
        """One that does not own what this one owns: of the same role where there are several, else of another one."""
        role = self.servers[number]["role"]
        same = [other for other, server in self.servers.items() if server["role"] == role and other != number]
        others = [other for other, server in self.servers.items() if server["role"] in CLASSES and server["role"] != role]
        return (same or others)[number % len(same or others)]


def figures(target):
    """What servers and proxies counted of misdirected requests, over all processes."""
    names = {"relayed": "nfs_relayed_total", "reports": "nfs_misdirected_reports_total", "mended": "proxy_entries_mended_total",
             "failures": "nfs_relay_failures_total", "loops": "nfs_relay_loops_total"}
    processes = [target.metrics(process) for process in target.process_names]
    return {figure: sum(metrics.get(name, 0) for metrics in processes) for figure, name in names.items()}


def bind_wrong(table, right):
    for key, (server, generation) in right.items():
        table.write(key, table.wrong_server(server), generation)


def not_put_back(table, right):
    """What is wrong, in words, where entries are not what they should be after a while."""
    end = time.monotonic() + PUT_BACK_SECONDS
    wrong = list(right)
    while (wrong := [key for key in wrong if table.read(key) != right[key]]) and time.monotonic() < end:
        time.sleep(0.1)
    return [f"{len(wrong)} of {len(right)} entries were not put back in {PUT_BACK_SECONDS} s"] if wrong else []


def all_well(what, faults):
    for fault in faults:
        print(f"not ok rebind {what}: {fault}", flush=True)
    if not faults:
        print(f"ok rebind {what}", flush=True)
    return not faults


def entries_of(table, site_class):
    first = CLASSES.index(site_class) * SITES_OF_A_CLASS
    return {key: table.read(key) for key in range(first, first + REBOUND)}


def rebind_after_load(target, site_class, load):
    """Binds sites of a class to wrong servers, lets a load have them put back, and does it again when that has ended: true when
    the proxy puts them back also then, with no request that could tell it."""
    table = SiteTable(target)
    right = entries_of(table, site_class)
    bind_wrong(table, right)
    ok = load()
    bind_wrong(table, right)
    return all_well(f"after load, {site_class} sites", not_put_back(table, right)) and ok


def rebind_under_load(target, load, site_class, seconds):
    """Binds sites of a class to wrong servers for so long, again and again; true when requests were relayed, none in vain,
    and the proxy put each entry back, also of a site that had no request."""
    table = SiteTable(target)
    right = entries_of(table, site_class)
    before = figures(target)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        bind_wrong(table, right)
        time.sleep(0.2)
    faults = not_put_back(table, right)
    grown = {figure: count - before[figure] for figure, count in figures(target).items()}
    print(f"{load}, {site_class} sites: {', '.join(f'{figure} {count}' for figure, count in grown.items())}", flush=True)
    faults += [f"{figure} did not grow" for figure in ("relayed", "reports", "mended") if grown[figure] == 0]
    faults += [f"{grown[figure]} {figure}" for figure in ("failures", "loops") if grown[figure] > 0]
    return all_well(f"{load} {site_class} sites", faults)
