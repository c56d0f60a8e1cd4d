#!/usr/bin/env python3
"""Runs every benchmark, one after another, and gathers what they say in one folder:

    all.py [--out DIR] [--short] [--only NAME,...] [--skip NAME,...] [--limit S] [--json]
    all.py --compare DIR DIR

DIR (run/bench by default) gets of each benchmark NAME.json, NAME.txt (the readable table) and NAME.log, pictures, and all.json: everything, with
how long each took. One that fails, or takes longer than --limit, is said so, taken down, and the rest goes on; the exit code is then 1.
--short: small forms of all, minutes instead of hours, to see that everything works here; their figures mean nothing.
--compare: every ratio of two runs side by side, those first that differ most; absolute figures follow the machine's mood, ratios should not."""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import run  # before bench, on whose path another run.py lies
import bench

PATIENCE = 60  # seconds to take its ensemble down in, for one that took too long
SHORT = {
    "xdp": ["--rounds", "2"],
    "ops": ["--rounds", "1", "--disk-seconds", "1", "--only", "null,getattr,lookup,create_remove,read_8k,write_8k"],
    "peers": ["--rounds", "1", "--rates", "200,400", "--warm-up", "0.5", "--interval", "1"],
    "store": ["--rounds", "1", "--megabytes", "64"],
    "block": ["--rounds", "1", "--seconds", "0.2", "--depths", "1,8", "--megabytes", "64"],
    "aoe": ["--rounds", "1", "--seconds", "0.3", "--depths", "8", "--megabytes", "16"],
    "bigdir": ["--entries", "20000", "--removals", "5000"],
    "figure3": ["--objects", "40", "--servers", "1,2", "--processes", "1,4"],
    "scale": ["--servers", "1,2", "--share", "0.1", "--rate", "200", "--warm-up", "0.5", "--interval", "2", "--clients", "2"],
    "proxies": ["--proxies", "1,2", "--rate", "1000", "--warm-up", "0.5", "--interval", "2"],
    "figure4": ["--objects", "40", "--affinities", "1,0", "--processes", "1,4"],
    "figure5": ["--nodes", "1,2", "--loads", "0.25,0.5", "--warm-up", "1", "--interval", "2"],
    "balance": ["--servers", "2", "--objects", "100"],
    "switch": ["--names", "20000", "--files", "2000", "--rounds", "1", "--interval", "0.5", "--settle", "0"],
    "cross-site": ["--count", "20", "--many", "200"],
    "acls": ["--rounds", "1", "--files", "200"],
    "encryption": ["--rounds", "1", "--interval", "1", "--small", "500", "--large", "100"],
    "kerberos": ["--rounds", "1", "--small", "200", "--large", "50", "--huge", "10", "--contexts", "100"],
    "locks": ["--rounds", "1", "--seconds", "0.5", "--trials", "1", "--systems", "slice", "--on", "tmpfs"],
    "table2": ["--nodes", "1,2", "--seconds", "1"],
    "grow": ["--nodes", "2,3", "--clients", "4", "--megabytes", "8", "--seconds", "2"],
    "client-proxy": ["--rounds", "1", "--only", "getattr,read_8k"],
    "units": ["--units", "64KiB,1MiB", "--rounds", "1"],
    "backing": ["--on", "tmpfs", "--rounds", "1", "--seconds", "1", "--processes", "2", "--objects", "40"],
    "failover": ["--trials", "1", "--ways", "planned", "--servers", "dir1,sharer"],
    "takeover": ["--names", "20000", "--files", "2000", "--rounds", "1", "--interval", "1", "--settle", "3"],
    "fairness": ["--clients", "4", "--rounds", "1", "--warm-up", "0.5", "--interval", "2"],
    "table3": ["--rounds", "2", "--rate", "500", "--warm-up", "0.5", "--interval", "2"],
    "fuzz": ["--cases", "50000"],
    "figure6": ["--nodes", "1,2", "--loads", "0.25,0.5", "--warm-up", "1", "--interval", "2"],
    **dict.fromkeys(("rpc", "proxy", "dirserver", "smallfile", "storagenode", "tracer"), ["--benchmark_min_time=0.01"]),
}


def words_of(name, options, results):
    """What this benchmark is told. figure6 takes the reports that figure5 has just made."""
    if name == "figure6" and results.get("figure5", {}).get("ok"):
        return ["--from", str(options.out / "figure5")]
    words = list(SHORT.get(name, [])) if options.short else []
    if name in ("peers", "figure5", "figure6", "grow", "failover"):
        words += ["--pictures", str(options.out / name)]
    return words


def end(process):
    """Has it clean up and end; whoever does not is killed, and what it brought up may be left."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "and did not clean up when told to: look at `ip netns`"
    return "and was taken down"


def readable(figures):
    width = max((len(figure["name"]) for figure in figures), default=0)
    return "\n".join(f"{figure['name']:{width}} {figure['value']:14.3f} {figure['unit']}" for figure in figures) + "\n"


def run_one(name, options, results):
    """Its result: {"ok", "seconds", "why", "figures"}."""
    text, log = options.out / f"{name}.txt", options.out / f"{name}.log"
    text.unlink(missing_ok=True)
    command = [sys.executable, str(run.ROOT / "tests/bench/run.py"), name, "--json", *words_of(name, options, results)]
    began, why = time.monotonic(), ""
    with open(log, "w", encoding="utf-8") as said:
        # A session of its own, so that a signal reaches the benchmark and what it started.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True,
                                   env={**os.environ, "SLICE_BENCH_TEXT": str(text)})
        try:
            out, _ = process.communicate(timeout=options.limit)
        except subprocess.TimeoutExpired:
            out, why = "", f"took longer than {options.limit:.0f} s, {end(process)}"
        except BaseException:
            end(process)
            raise
    result = {"ok": False, "seconds": round(time.monotonic() - began, 1), "why": why, "figures": []}
    if not why and process.returncode != 0:
        result["why"] = f"exit code {process.returncode}: {last_line(log)}"
    if result["why"]:
        return result
    try:
        result["figures"] = json.loads(out)["figures"]
    except (ValueError, KeyError):
        result["why"] = "printed no figures"
        return result
    result["ok"] = True
    (options.out / f"{name}.json").write_text(out)
    if not text.exists():
        text.write_text(readable(result["figures"]))
    return result


def ratios(folder):
    """{benchmark/figure: value} of a run."""
    results = json.loads((folder / "all.json").read_text())["results"]
    return {f"{name}/{figure['name']}": figure["value"] for name, result in results.items() for figure in result["figures"]
            if figure["unit"] == "ratio"}


def compare(folders):
    first, second = map(ratios, folders)
    both = [(name, first[name], second[name], abs(second[name] / first[name] - 1)) for name in first.keys() & second.keys() if first[name]]
    both.sort(key=lambda one: -one[3])
    rows = [["ratio", str(folders[0]), str(folders[1]), "differ by"]]
    rows += [[name, f"{a:.2f}", f"{b:.2f}", f"{100 * apart:.0f} %"] for name, a, b, apart in both]
    print(bench.table(rows))
    near = sum(apart <= 0.1 for *_, apart in both)
    print(f"{len(both)} ratios, {near} of them within 10 %; in one run alone: {len(first.keys() ^ second.keys())}")


def last_line(log):
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def chosen(options, parser):
    names = [name for name in run.BENCHMARKS if name != "all"]
    for given in (options.only, options.skip):
        if unknown := set(given) - set(names):
            parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    return [name for name in names if (not options.only or name in options.only) and name not in options.skip]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=run.ROOT / "run/bench")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", type=names, default=[])
    parser.add_argument("--skip", type=names, default=[])
    parser.add_argument("--limit", type=float, default=1800, help="seconds of each benchmark")
    parser.add_argument("--compare", type=pathlib.Path, nargs=2, metavar="DIR", help="of two runs; runs nothing")
    options = parser.parse_args()
    if options.compare:
        compare(options.compare)
        return 0
    bench.uml.exit_on_signals()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in chosen(options, parser):
        print(f"== {name}", file=sys.stderr, flush=True)
        results[name] = run_one(name, options, results)
        (options.out / "all.json").write_text(json.dumps({"short": options.short, "results": results}, indent=1) + "\n")
        said = "done" if results[name]["ok"] else f"FAILED: {results[name]['why']}"
        print(f"== {name}: {said}, {results[name]['seconds']:.0f} s", file=sys.stderr, flush=True)
    failed = [name for name, result in results.items() if not result["ok"]]
    if options.json:
        figures = [{**figure, "name": f"{name}/{figure['name']}"} for name, result in results.items() for figure in result["figures"]]
        print(json.dumps({"benchmark": "all", "failed": failed, "figures": figures}, indent=1))
    else:
        for name, result in results.items():
            if result["ok"]:
                print(f"\n== {name}: {run.BENCHMARKS[name][1]}\n\n{(options.out / f'{name}.txt').read_text()}")
        for name, result in results.items():
            print(f"{name:12} {result['seconds']:6.0f} s  {'ok' if result['ok'] else 'FAILED: ' + result['why']}")
        print(f"{len(results) - len(failed)} done, {len(failed)} failed; tables and JSON in {options.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
