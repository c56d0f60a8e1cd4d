#!/usr/bin/env python3
"""Runs everything that must pass, and closes with one line `N passed, N failed, N skipped`.

Stages: format (clang-format, and what else can be told from the sources alone), processes (real processes, packets and
stock kernels, with the release build that users have), tidy (clang-tidy), asan (unit tests, and a part of the
simulations, under AddressSanitizer and UBSan), tsan (unit tests of what threads share under ThreadSanitizer), docs (the
commands that the documents show). A test case is one GoogleTest case, or one ctest entry that is no GoogleTest program.
Skipped cases are listed by name. While tests of the stage processes wait, what the later ones need is made beside them,
with the processor time that is left over; and the documents' commands run beside unit tests."""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

from processors import processor_ticks

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHECKS = [  # of the sources alone, seconds each
    ("links and paths in documents", "tests/docs/check_docs.py", "--links"),
    ("layers (tests/layers/check_layers.py)", "tests/layers/check_layers.py"),
    ("includes (tests/layers/check_includes.py)", "tests/layers/check_includes.py"),
    ("scripts (tests/layers/check_scripts.py)", "tests/layers/check_scripts.py"),
    ("metrics in documents (tests/docs/check_metrics.py)", "tests/docs/check_metrics.py"),
]
STAGES = ["format", "processes", "tidy", "asan", "tsan", "docs"]
PACKAGES = ["run", "etcd", "page", "test"]  # uses (deploy/packages.txt) of those that tests need besides what compiles them
PROCESSES = "cluster|ext4|interop|kernels|packages|packet|plain"  # ctest labels
JUNIT, SAID = "ctest.junit", "ctest.txt"
LONGEST = 12  # tests that are named, of a run of ctest
TELLS = re.compile(r"\bnot ok\b|FAILED|NOT HIT|WRONG|wrong|Traceback|[Ee]rror:|Sanitizer|Failure$")
TOLD = 30  # lines, of a test that failed
IDLE = [str(ROOT / "tests" / "idle.sh")]


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def add(self, name, ok, skipped=False, why="", said=""):
        """`why` it was skipped; what it `said`, of which the lines that tell of its failure are shown at the end again."""
        if skipped:
            self.skipped.append(f"{name}: {why}" if why else name)
        elif ok:
            self.passed += 1
        else:
            self.failed.append((name, [line for line in said.splitlines() if TELLS.search(line)][-TOLD:]))


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


def look_at_release(script, before):
    """What the script says of the sources, as the release build compiles them: it needs what is generated there."""
    ok, said = build("release", "generated", before=before)
    if not ok:
        return False, said
    done = subprocess.run([*before, "python3", script, "build/release"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, done.stdout


class Ahead:
    """What later stages need, done one after another beside the tests of an earlier one. What was not begun is done when it is asked for."""

    # By the stage, and what of it; each with `given` and the words before a command.
    WORK = {"processes": lambda _, before: build("release", "process_tests", before=before),
            "asan": lambda _, before: build("asan", "sanitized_tests", before=before),
            "tidy": lambda _, before: look_at_release("tests/tidy/tidy.py", before),
            "tsan": lambda _, before: build("tsan", "threaded_tests", before=before),
            # Documents show the programs; and that benchmarks could be made is seen beside it.
            "docs": lambda _, before: look_at_release("tests/bench/check_compiles.py", before),
            "asan simulations": lambda given, _: run_ctest("asan", "sim", given.only, says=SAID),
            "documents": lambda _, __: subprocess.run(["python3", "tests/docs/check_docs.py"], cwd=ROOT, stdout=subprocess.PIPE,
                                                      stderr=subprocess.STDOUT, text=True)}

    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self.begun = {}

    def begin(self, given, name, before=()):
        if name not in self.begun:
            self.begun[name] = self.pool.submit(self.WORK[name], given, before)

    def begin_others(self, given):
        for name in self.WORK:
            if name.split()[0] in given.stages:
                self.begin(given, name, IDLE)

    def begin_documents(self, given):
        """Beside unit tests: both wait for much of their time."""
        if "docs" in given.stages and self.result("docs", given)[0]:
            self.begin(given, "documents")

    def result(self, name, given):
        self.begin(given, name)
        return self.begun[name].result()


ahead = Ahead()


def read_results(tally, preset, folder):
    """Of run_ctest(). GoogleTest's own XML where a program wrote one, else ctest's entry."""
    if (folder / SAID).exists():
        print((folder / SAID).read_text())
    if not (folder / JUNIT).exists():
        tally.add(f"ctest of preset {preset}", False)
        return
    cases = list(ElementTree.parse(folder / JUNIT).getroot().iter("testcase"))
    longest = sorted(cases, key=lambda case: -float(case.get("time")))[:LONGEST]
    say("longest: " + ", ".join(f"{case.get('name')} {float(case.get('time')):.0f} s" for case in longest))
    suites = {}
    for path in folder.glob("*.xml"):
        suites[path.stem] = ElementTree.parse(path).getroot()
    for case in cases:
        name = case.get("name")
        ok = case.get("status") == "run"
        suite = suites.get(name)
        if suite is None:
            skipped = case.get("status") == "disabled" or case.find("skipped") is not None
            said = case.findtext("system-out") or ""
            why = [line.removeprefix("SKIPPED ") for line in said.splitlines() if line.startswith("SKIPPED ")]
            tally.add(f"{preset}/{name}", ok, skipped, "; ".join(why), said)
            continue
        for inner in suite.iter("testcase"):
            skip = inner.find("skipped")
            tally.add(f"{preset}/{name}/{inner.get('classname')}.{inner.get('name')}", inner.find("failure") is None,
                      skip is not None, (skip.get("message") or "").strip() if skip is not None else "",
                      "".join(failure.get("message") or "" for failure in inner.iter("failure")))
        if not ok and suite.find(".//failure") is None:
            tally.add(f"{preset}/{name} (ended badly outside of its cases)", False)


def run_ctest(preset, labels, only, at_once=2, says=None):
    """The folder with its results, for read_results(). `at_once`: cmake/SliceBuild.cmake, slice_process_test(). `says`: to a file of that name."""
    folder = ROOT / "build" / preset / "results" / labels.split("|")[0]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = ["ctest", "--test-dir", str(ROOT / "build" / preset), "--output-on-failure", "--output-junit", str(folder / JUNIT),
               f"-j{at_once}", "-L", labels, *(["-R", only] if only else [])]
    with open(folder / says, "w") if says else contextlib.nullcontext() as output:
        subprocess.run(command, cwd=ROOT, stdout=output, stderr=output,
                       env={**os.environ, "GTEST_OUTPUT": f"xml:{folder}/", "SLICE_RESULTS": str(folder)})
    return folder


def is_built(tally, preset, result):
    """Of what build() said; told where it failed."""
    ok, said = result
    if not ok:
        print(said[-8000:])
        tally.add(f"build of preset {preset}", False)
    return ok


def stage_processes(tally, given):
    if not is_built(tally, "release", ahead.result("processes", given)):
        return
    ahead.begin_others(given)
    read_results(tally, "release", run_ctest("release", given.labels, given.only, at_once=7))


def stage_tidy(tally, given):
    ok, said = ahead.result("tidy", given)
    print(said[-8000:])
    tally.add("clang-tidy", ok)


def stage_asan(tally, given):
    if is_built(tally, "asan", ahead.result("asan", given)):
        read_results(tally, "asan", ahead.result("asan simulations", given))
        ahead.begin_documents(given)
        read_results(tally, "asan", run_ctest("asan", "unit", given.only, at_once=4))  # many wait


def stage_tsan(tally, given):
    if is_built(tally, "tsan", ahead.result("tsan", given)):
        read_results(tally, "tsan", run_ctest("tsan", "threads", given.only, at_once=3))


def stage_docs(tally, given):
    if not is_built(tally, "release", ahead.result("docs", given)):
        return
    done = ahead.result("documents", given)
    print(done.stdout)
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
    installing = subprocess.Popen(["./slice", "install", *PACKAGES], cwd=ROOT)
    if "processes" in given.stages:
        ahead.begin(given, "processes")  # compilers work while packages are unpacked
    if installing.wait() != 0:
        sys.exit("run.py: not all packages that tests need could be installed")
    tally = Tally()
    for stage in given.stages:
        say(stage)
        began, before = time.monotonic(), processor_ticks()
        globals()[f"stage_{stage}"](tally, given)
        ticks, idle = (now - then for now, then in zip(processor_ticks(), before))
        say(f"{stage}: {time.monotonic() - began:.0f} s, {(ticks - idle) / os.sysconf('SC_CLK_TCK'):.0f} s of processors, "
            f"{100 * (ticks - idle) / max(ticks, 1):.0f} % of what there is")
    for name in tally.skipped:
        print(f"SKIPPED {name}")
    for name, told in tally.failed:
        for line in told:
            print(f"  {name}: {line}")
    for name, _ in tally.failed:
        print(f"FAILED {name}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 1 if tally.failed or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
