#!/usr/bin/env python3
"""Holds docs/metrics.md and deploy/monitoring/ against the sources: every metric that a program makes stands in a table of
the document, with its type and the help it is made with, nothing else does, and rules and dashboards ask for metrics that
there are. Exit code 1, with what to change, where they differ."""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Names and helps are literals; one may be of several pieces.
MADE = re.compile(r'\b(counter|gauge|histogram)\(\s*"([a-z][a-z0-9_]*)"\s*,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
# And every literal that can be nothing else.
TOTAL = re.compile(r'"([a-z][a-z0-9_]*_total)[{"]')
DOCUMENTED = re.compile(r"^\| `([a-z][a-z0-9_]*)(?:\{[^`]*\})?` \| (\w+) \| (.*) \|$", re.M)
NAMED = re.compile(r"\b(?:slice|process)_[a-z0-9_]+")
FOLDERS = ["common", "rpc", "http", "storage", "service", "dirserver", "smallfile", "storagenode", "coordinator", "proxy", "block", "link", "aoe", "blockd", "control"]
MONITORING = ROOT / "deploy/monitoring"


def sources():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split()
    apart = re.compile(r"(_test|_bench|_fuzz|_harness|_fixture)\.|/testing/|^common/metrics\.")
    return [p for p in listed if p.endswith((".cc", ".h")) and not apart.search(p) and (ROOT / p).exists()]


def exposed(name):
    return name if name.startswith("process_") else f"slice_{name}"


def plain(text):
    """A row's text as a help has it: without links, and asides that are nothing but links."""
    text = re.sub(r" \(\[[^\]]*\]\([^)]*\)\)", "", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


def made_by(texts):
    """{exposed name: (type, help, path)}, and what is wrong with the sources themselves."""
    made, wrong = {}, []
    for path, text in texts.items():
        for kind, name, pieces in MADE.findall(text):
            told = "".join(json.loads(piece) for piece in re.findall(r'"(?:[^"\\]|\\.)*"', pieces))
            before = made.setdefault(exposed(name), (kind, told, path))
            if before[:2] != (kind, told):
                wrong.append(f"{path}: makes `{name}` as a {kind} with the help \"{told}\"; {before[2]} says {before[0]}, \"{before[1]}\"")
    for path, text in texts.items():
        wrong += [f"{path}: names `{name}`, which nothing makes with a help" for name in TOTAL.findall(text) if exposed(name) not in made]
    return made, wrong


def held_against(made, rows):
    wrong = []
    for name in sorted(made.keys() - rows.keys()):
        kind, told, path = made[name]
        wrong.append(f"{path}: makes `{name}`, which docs/metrics.md does not explain: add the row | `{name}` | {kind} | {told} |")
    for name in sorted(rows.keys() - made.keys()):
        wrong.append(f"docs/metrics.md: explains `{name}`, which nothing makes: take the row away")
    for name in sorted(rows.keys() & made.keys()):
        (kind, text), (is_kind, told, path) = rows[name], made[name]
        if kind != is_kind:
            wrong.append(f"docs/metrics.md: says that `{name}` is a {kind}; {path} makes a {is_kind}")
        if not plain(text).startswith(told):
            wrong.append(f"docs/metrics.md: the row of `{name}` does not begin with the help of {path}: \"{told}\"")
    return wrong


def expressions():
    """(where, text) of everything that asks Prometheus for something."""
    for path in sorted(MONITORING.glob("*.yml")):
        for line in path.read_text().splitlines():
            if not line.lstrip().startswith("#"):
                yield path.name, line
    for path in sorted(MONITORING.glob("*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.name}: {panel['title']}", target["expr"]
        for variable in board["templating"]["list"]:
            yield f"{path.name}: ${variable['name']}", variable.get("definition", "")


def asked_for(made):
    wrong, count = [], 0
    for where, text in expressions():
        for name in NAMED.findall(text):
            count += 1
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            known = name in made and made[name][0] != "histogram" or family in made and made[family][0] == "histogram" and family != name
            if not known:
                wrong.append(f"deploy/monitoring/{where}: asks for `{name}`, which no program has")
    return wrong, count


def without_prefix(made):
    """Documents name metrics as users see them."""
    wrong = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for name in re.findall(r"`([a-z]+_[a-z0-9_]*)(?:\{[^`]*\})?`", path.read_text()):
            if f"slice_{name}" in made:
                wrong.append(f"{path.relative_to(ROOT)}: names `{name}`, which is exposed as `slice_{name}`")
    return wrong


def alerts(document):
    rules = set(re.findall(r"^ *- alert: (\w+)$", (MONITORING / "slice-alerts.yml").read_text(), re.M))
    tested = set(re.findall(r"alertname: (\w+)\n *exp_alerts:\n", (MONITORING / "slice-alerts-test.yml").read_text()))
    rows = set(re.findall(r"^\| `(\w+)` \| (?:critical|warning) \|", document, re.M))
    return [f"alert `{name}`: docs/metrics.md has no row of it" for name in sorted(rules - rows)] + \
           [f"alert `{name}`: docs/metrics.md has a row of it, and there is no such rule" for name in sorted(rows - rules)] + \
           [f"alert `{name}`: slice-alerts-test.yml does not have it fire" for name in sorted(rules - tested)]


def main():
    made, wrong = made_by({path: (ROOT / path).read_text() for path in sources()})
    document = (ROOT / "docs/metrics.md").read_text()
    rows = {name: (kind, text) for name, kind, text in DOCUMENTED.findall(document)}
    wrong += held_against(made, rows) + without_prefix(made) + alerts(document)
    wrong_names, asked = asked_for(made)
    wrong += wrong_names
    for line in wrong:
        print(line)
    print(f"metrics: {len(made)} made, {len(rows)} documented, {asked} asked for by rules and dashboards, {len(wrong)} wrong")
    return 1 if wrong or not made or not asked else 0


if __name__ == "__main__":
    sys.exit(main())
