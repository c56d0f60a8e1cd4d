"""A small simulation of directory servers on machines of their own: client processes that make one call at a time, servers that
each do one thing at a time, in the order of arrival. What it is told comes from measurement: where each object of each process
landed, and the processor time of calls."""

import heapq
import random


def calls_of(object_, policy):
    """The seven calls that make one object, as (first server's site, other server's site or None, changes something)."""
    folder, parent, site = object_
    name = site if policy == "name-hashing" or not folder else parent  # where its name is
    made = site  # where CREATE or MKDIR is sent: under both policies to the new object's site
    other = parent if parent != site else None  # the other half of the change, or (name hashing) the folder's times
    return [(name, None, False), (parent, None, False), (made, other, True), (site, None, False), (name, None, False),
            (site, None, True), (site, None, True)]


def run(traces, policy, owners, cost, wait, seed=1):
    """Seconds until the last process is done. `traces`: for each process its objects; `owners`: the server of each site; `cost`:
    seconds of a server {"read", "change", "cross": besides, at each of the two servers}; `wait`: seconds of every call that no
    server is busy for (network, disk)."""
    chance = random.Random(seed)
    free = {owner: 0.0 for owner in owners}
    processes = [iter([call for object_ in trace for call in calls_of(object_, policy)]) for trace in traces]
    ready = [(chance.random() * wait, number) for number in range(len(processes))]
    heapq.heapify(ready)
    last = 0.0
    while ready:
        time, number = heapq.heappop(ready)
        call = next(processes[number], None)
        if call is None:
            last = max(last, time)
            continue
        site, other, change = call
        cross = other is not None and owners[other] != owners[site]
        work = cost["change" if change else "read"] + (cost["cross"] if cross else 0)
        start = max(time + wait / 2, free[owners[site]])
        free[owners[site]] = done = start + work
        if cross:
            free[owners[other]] = done = max(done + wait / 2, free[owners[other]]) + cost["cross"]
            done += wait / 2
        heapq.heappush(ready, (done + wait / 2, number))
    return last
