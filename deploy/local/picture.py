#!/usr/bin/env python3
"""picture.py [FILE] [--dark]: a picture of the page of slice-webd (docs/page.md) for the ensemble that `./slice up` brought up. The
program runs on the proxy's host until the picture is taken."""

import argparse
import pathlib
import subprocess
import sys
import time

from ensemble import ROOT, Ensemble, Failure

sys.path.insert(0, str(ROOT / "tests/cluster"))
import browser  # noqa: E402  (its folder is known only now)

SIZE = (1280, 1400)
WARM_UP = 6  # seconds: a few points of the curves
PORT = 2080


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=pathlib.Path("page.png"))
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--instance", default="local")
    parser.add_argument("--run-dir", default=ROOT / "run")
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=pathlib.Path)
    given = parser.parse_args()
    ensemble = Ensemble(given.instance, given.run_dir, given.bin)
    try:
        ensemble.load()
    except Failure as failure:
        print(f"picture: {failure}", file=sys.stderr)
        return 1
    names = ensemble.namespaces()
    given.file.parent.mkdir(parents=True, exist_ok=True)
    program = subprocess.Popen(["nsenter", f"--net=/run/netns/{names['proxy']}", given.bin / "slice-webd", "--config", names["config"],
                                "--port", str(PORT)])
    try:
        time.sleep(WARM_UP)
        browser.take(names["proxy"], f"http://127.0.0.1:{PORT}/", browser.DARK if given.dark else browser.LIGHT, given.file.resolve(), SIZE)
    finally:
        program.terminate()
        program.wait()
    print(f"{given.file}: {given.file.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
