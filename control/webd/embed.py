#!/usr/bin/env python3
"""embed.py OUT FILE...: kAssets of control/webd/pages.h, from these files."""

import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
PIECE = 8000  # of a literal; compilers may refuse more than 65,536 bytes


def main():
    out, *files = map(pathlib.Path, sys.argv[1:])
    lines = ['#include "control/webd/pages.h"', "", f"const std::array<slice::webd::Asset, {len(files)}> slice::webd::kAssets{{{{"]
    for file in files:
        text = file.read_text()
        where = "/" if file.name == "index.html" else f"/{file.name}"
        pieces = [f'R"page({text[at:at + PIECE]})page"' for at in range(0, len(text), PIECE)]
        lines.append(f'    {{"{where}", "{TYPES[file.suffix]}", {" ".join(pieces)}}},')
    out.write_text("\n".join([*lines, "}};", ""]))


if __name__ == "__main__":
    main()
