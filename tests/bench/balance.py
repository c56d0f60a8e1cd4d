#!/usr/bin/env python3
"""How evenly entries lie: the untar load on N directory servers, under mkdir switching with p = 1/N and under name hashing; entries are
counted by the directory site in their handles.

    balance.py [--json] [--servers N,...] [--processes N] [--objects N] [--folder DIR]

chi-square: against equal shares, over servers and over sites. Under name hashing every entry is placed by itself, so chi-square says
whether the hash is fair (p-value not near 0). Under mkdir switching all files of a folder lie together and most folders with their parents,
by design: entries are far from independent, and the figure to look at is the largest share over the mean."""

import math
import sys

import bench

POLICIES = ("mkdir-switching", "name-hashing")


def upper_tail(chi, degrees):
    """P(X >= chi) of a chi-square distribution: the regularized incomplete gamma function Q(degrees/2, chi/2)."""
    a, x = degrees / 2, chi / 2
    if x <= 0:
        return 1.0
    scale = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        n = a
        while abs(term) > 1e-15 * abs(total):
            n += 1
            term *= x / n
            total += term
        return 1 - total * scale
    b, c = x + 1 - a, 1e300
    d = fraction = 1 / b
    for i in range(1, 1000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return scale * fraction


def critical(degrees, level=0.05):
    """The value that chi-square exceeds with this probability."""
    low, high = 0.0, 10.0 * degrees + 100
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(middle, degrees) > level else (low, middle)
    return low


def chi_square(counts, shares):
    total = sum(counts)
    return sum((count - total * share) ** 2 / (total * share) for count, share in zip(counts, shares))


def count(said, owners):
    """Entries by site, and by server with its share of the sites."""
    sites = [said["files_by_site"].get(str(site), 0) + said["folders_by_site"].get(str(site), 0) for site in range(len(owners))]
    servers = sorted(set(owners))
    by_server = [sum(n for n, owner in zip(sites, owners) if owner == server) for server in servers]
    return sites, by_server, [owners.count(server) / len(owners) for server in servers]


def main():
    parser = bench.arguments(__doc__)
    parser.add_argument("--servers", default="2,4,8")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--objects", type=int, default=2000, help="files and folders of each client process")
    options = parser.parse_args()
    if min(map(int, options.servers.split(","))) < 2:
        parser.error("--servers: one server has no balance")
    rows = [["policy", "servers", "entries", "by server", "largest/mean", "chi-square (df)", "5 % limit", "p-value", "sites: chi-square (df)",
             "5 % limit", "p-value"]]
    figures = []
    with bench.scratch(options) as folder:
        for policy in POLICIES:
            for servers in (int(n) for n in options.servers.split(",")):
                with bench.ensemble(options, folder, directories=servers, policy=policy) as slice_:
                    said = bench.client(options, slice_, "untar_bench", "--processes", options.processes, "--objects", options.objects)
                    owners = bench.owners(slice_)
                sites, by_server, shares = count(said, owners)
                over_servers, over_sites = chi_square(by_server, shares), chi_square(sites, [1 / len(sites)] * len(sites))
                largest = max(n / share for n, share in zip(by_server, shares)) / sum(by_server)
                few, many = servers - 1, len(sites) - 1
                row = [policy, servers, sum(sites), " ".join(map(str, by_server)), f"{largest:.2f}", f"{over_servers:.1f} ({few})",
                       f"{critical(few):.1f}", f"{upper_tail(over_servers, few):.2g}", f"{over_sites:.1f} ({many})", f"{critical(many):.1f}",
                       f"{upper_tail(over_sites, many):.2g}"]
                rows.append(row)
                bench.say("  ".join(map(str, row)))
                figures += [bench.figure(f"{policy}_{servers}_largest_over_mean", "ratio", largest),
                            bench.figure(f"{policy}_{servers}_chi_square_servers", "", over_servers),
                            bench.figure(f"{policy}_{servers}_chi_square_sites", "", over_sites),
                            bench.figure(f"{policy}_{servers}_p_value_sites", "", upper_tail(over_sites, many))]
    bench.finish(options, "balance", figures, bench.table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
