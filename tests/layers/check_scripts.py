#!/usr/bin/env python3
"""Checks that the names which Python modules of this project ask of each other exist: a script that only a kernel or a long benchmark runs
would say so after an hour. Exit code 1 where one is missing."""

import ast
import functools
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def scripts():
    names = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {ROOT / name: ast.parse((ROOT / name).read_text(), name) for name in names}


def made(tree):
    """The names that a module has when it is imported."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return names


def modules_of(name, importer, by_name):
    """The project's modules that an import may mean: the one beside the importer, else all of that name. None: it is another's."""
    found = [path for path in by_name.get(name.split(".")[-1], []) if path != importer]
    return [path for path in found if path.parent == importer.parent] or found


def imports(path, tree, by_name):
    """(line, what, the name within it, modules that may be meant) of each import of modules of the project, and of what is in them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.asname or alias.name, None, modules_of(alias.name, path, by_name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            outer = modules_of(node.module, path, by_name)
            for alias in node.names:
                inner = [] if outer else modules_of(alias.name, path, by_name)
                yield node.lineno, alias.asname or alias.name, alias.name if outer else None, inner or outer


def missing(path, tree, names_of, by_name):
    nodes = list(ast.walk(tree))
    local = {node.arg for node in nodes if isinstance(node, ast.arg)} | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    meant = {}
    for line, what, within, modules in imports(path, tree, by_name):
        if within is None:
            meant[what] = modules
        elif not any(within in names_of(module) for module in modules):
            yield line, f"{within} in {modules[0].stem}"
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in local and not node.attr.startswith("__"):
            modules = meant.get(node.value.id)
            if modules and not any(node.attr in names_of(module) for module in modules):
                yield node.lineno, f"{node.value.id}.{node.attr}"


def main():
    trees = scripts()
    by_name = {}
    for path in trees:
        by_name.setdefault(path.stem, []).append(path)
    names_of, wrong = functools.cache(lambda path: made(trees[path])), 0
    for path, tree in trees.items():
        for line, what in missing(path, tree, names_of, by_name):
            wrong += 1
            print(f"{path.relative_to(ROOT)}:{line}: there is no {what}")
    print(f"scripts: {len(trees)} files, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
