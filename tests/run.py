#!/usr/bin/env python3
"""Runs everything that must pass, and closes with one line `N passed, N failed, N skipped`.

Stages: format (clang-format, and what else can be told from the sources alone), processes (real processes, packets, stock
kernels and simulations, with the release build that users have), tidy (clang-tidy), asan (unit tests, and a part of the
simulations, under AddressSanitizer and UBSan), tsan (unit tests of what threads share under ThreadSanitizer), docs (the
commands that the documents show). A test case is one GoogleTest case, or one ctest entry that is no GoogleTest program.
Skipped cases are listed by name. While tests of the stage processes wait, what the later ones need is made beside them,
with the processor time that is left over."""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHECKS = [  # of the sources alone, seconds each
    ("links and paths in documents", "tests/docs/check_docs.py", "--links"),
    ("layers (tests/layers/check_layers.py)", "tests/layers/check_layers.py"),
    ("includes (tests/layers/check_includes.py)", "tests/layers/check_includes.py"),
    ("metrics in documents (tests/docs/check_metrics.py)", "tests/docs/check_metrics.py"),
]
STAGES = ["format", "processes", "tidy", "asan", "tsan", "docs"]
PROCESSES = "cluster|ext4|interop|kernels|packages|packet|plain"  # ctest labels
# Runs when nothing else would. Where the kernel groups processes by session (autogroup), SCHED_IDLE counts within one's session
# alone, and servers and clients under test have sessions of their own: so has this, with the least weight that there is.
IDLE = ["setsid", "--wait", "sh", "-c", 'echo 19 2>/dev/null >/proc/self/autogroup; exec chrt --idle 0 "$@"', "sh"]


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def add(self, name, ok, skipped=False, why=""):
        if skipped:
            self.skipped.append(f"{name}: {why}" if why else name)
        elif ok:
            self.passed += 1
        else:
            self.failed.append(name)


def say(text):
    print(f"== {text}", flush=True)


def sources(*endings):
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [p for p in listed if p.endswith(endings)]


def stage_format(tally, _):
    done = subprocess.run(["clang-format-19", "--dry-run", "-Werror", *sources(".h", ".cc", ".c")], cwd=ROOT)
    tally.add("clang-format (cure: ./slice format)", done.returncode == 0)
    for name, *command in CHECKS:
        tally.add(name, subprocess.run(["python3", *command], cwd=ROOT).returncode == 0)


def build(preset, *targets, before=()):
    """Whether it could be built, and what was said; `before`: words before the command's."""
    if not (ROOT / "build" / preset / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", preset], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([*before, "cmake", "--build", "--preset", preset, *(["--target", *targets] if targets else [])],
                          cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, done.stdout


def tidy(before=()):
    """With the release build, for what is generated there."""
    ok, said = build("release", "programs", before=before)
    if not ok:
        return False, said
    done = subprocess.run([*before, "python3", "tests/tidy/tidy.py", "build/release"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, done.stdout


class Ahead:
    """What later stages need, done one after another beside the tests of an earlier one. What was not begun is done when it is asked for."""

    WORK = {"asan": lambda before=(): build("asan", "sanitized_tests", before=before), "tidy": tidy,
            "tsan": lambda before=(): build("tsan", "threaded_tests", before=before),
            "docs": lambda before=(): build("release", "programs", "benchmarks", before=before)}  # what documents show

    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self.begun = {}

    def begin(self, stages):
        self.begun = {name: self.pool.submit(work, IDLE) for name, work in self.WORK.items() if name in stages}

    def result(self, name):
        return self.begun[name].result() if name in self.begun else self.WORK[name]()


ahead = Ahead()


def read_results(tally, preset, junit, folder):
    """GoogleTest's own XML where a program wrote one, else ctest's entry."""
    suites = {}
    for path in folder.glob("*.xml"):
        suites[path.stem] = ElementTree.parse(path).getroot()
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        name = case.get("name")
        ok = case.get("status") == "run"
        suite = suites.get(name)
        if suite is None:
            skipped = case.get("status") == "disabled" or case.find("skipped") is not None
            said = [line for line in (case.findtext("system-out") or "").splitlines() if line.startswith("SKIPPED ")]
            tally.add(f"{preset}/{name}", ok, skipped, "; ".join(line.removeprefix("SKIPPED ") for line in said))
            continue
        for inner in suite.iter("testcase"):
            skip = inner.find("skipped")
            tally.add(f"{preset}/{name}/{inner.get('classname')}.{inner.get('name')}", inner.find("failure") is None,
                      skip is not None, (skip.get("message") or "").strip() if skip is not None else "")
        if not ok and suite.find(".//failure") is None:
            tally.add(f"{preset}/{name} (ended badly outside of its cases)", False)


def run_ctest(tally, preset, labels, given):
    folder = ROOT / "build" / preset / "results"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    junit = folder.parent / "ctest.junit"
    junit.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(ROOT / "build" / preset), "--output-on-failure", "--output-junit", str(junit), "-j2", "-L", labels]
    if given.only:
        command += ["-R", given.only]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "GTEST_OUTPUT": f"xml:{folder}/"})
    if junit.exists():
        read_results(tally, preset, junit, folder)
    else:
        tally.add(f"ctest of preset {preset}", False)


def is_built(tally, preset, result):
    """Of what build() said; told where it failed."""
    ok, said = result
    if not ok:
        print(said[-8000:])
        tally.add(f"build of preset {preset}", False)
    return ok


def stage_processes(tally, given):
    if not is_built(tally, "release", build("release", "process_tests")):
        return
    ahead.begin(given.stages)
    run_ctest(tally, "release", given.labels, given)


def stage_tidy(tally, _):
    ok, said = ahead.result("tidy")
    print(said[-8000:])
    tally.add("clang-tidy", ok)


def stage_asan(tally, given):
    if is_built(tally, "asan", ahead.result("asan")):
        run_ctest(tally, "asan", "unit|sim", given)


def stage_tsan(tally, given):
    if is_built(tally, "tsan", ahead.result("tsan")):
        run_ctest(tally, "tsan", "threads", given)


def stage_docs(tally, _):
    if not is_built(tally, "release", ahead.result("docs")):
        return
    done = subprocess.run(["python3", "tests/docs/check_docs.py"], cwd=ROOT)
    tally.add("documents (tests/docs/check_docs.py)", done.returncode == 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", default=",".join(STAGES), help=f"comma-separated, of: {', '.join(STAGES)}")
    parser.add_argument("--labels", default=PROCESSES, help="of the stage processes: a regular expression over ctest labels (%(default)s)")
    parser.add_argument("--only", help="a regular expression over ctest names")
    given = parser.parse_args()
    given.stages = given.stages.split(",")
    unknown = [stage for stage in given.stages if stage not in STAGES]
    if unknown:
        parser.error(f"no such stage: {', '.join(unknown)}")
    tally = Tally()
    for stage in given.stages:
        say(stage)
        began = time.monotonic()
        globals()[f"stage_{stage}"](tally, given)
        say(f"{stage}: {time.monotonic() - began:.0f} s")
    for name in tally.skipped:
        print(f"SKIPPED {name}")
    for name in tally.failed:
        print(f"FAILED {name}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 1 if tally.failed or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
