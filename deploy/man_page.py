#!/usr/bin/env python3
"""man_page.py PROGRAM PAGE: writes the program's manual page from what it says by --help, and each of its commands by `COMMAND --help`
(help2man). The page's section is the last part of its name."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

FILES = """[FILES]
.TP
/etc/slice/ensemble.toml
the ensemble's configuration: /usr/share/doc/slice/configuration.md
[SEE ALSO]
/usr/share/doc/slice/operations.md
"""


HELP_OPTION = "  -h,--help                   Print this help message and exit\n"


def said(program, *words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def commands(text):
    """Names in the list of commands of a --help."""
    _, _, rest = text.partition("\nSubcommands:\n")
    return re.findall(r"^  ([a-z][\w-]*) ", rest.split("\n\n")[0], re.M)


def sections(program, *words):
    """One for each command and the commands below it: its --help as it is, without what all of them say."""
    for command in commands(said(program, *words)):
        path = [*words, command]
        text = said(program, *path)
        yield path, re.split(r"\n(?:Subcommands:|Exit codes:)", text.replace(HELP_OPTION, ""))[0].strip().removesuffix("\nOptions:").strip()
        yield from sections(program, *path)


def escaped(text):
    return "\n".join(line.replace("\\", "\\e").replace("-", "\\-") if not line.startswith((".", "'")) else "\\&" + line for line in text.splitlines())


def include(program):
    text = FILES
    of_commands = [f".SS {escaped(' '.join(path))}\n.nf\n{escaped(help_text)}\n.fi\n" for path, help_text in sections(program)]
    return text + ("[COMMANDS]\n" + "".join(of_commands) if of_commands else "")


def about(program):
    """What it is, in a few words, without its own name."""
    first = said(program).splitlines()[0]
    return re.split(r"[;,]", first.removeprefix(f"{program}: "))[0]


def main():
    program, page = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"  # --help tells the way by which it was called
    page.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".h2m") as more:
        more.write(include(program.name))
        more.flush()
        subprocess.run(["help2man", "--no-info", "--section", page.suffix[1:], "--name", about(program.name), "--manual", "Slice", "--source", f"Slice {version}",
                        "--version-string", version, "--include", more.name, "--output", page, program.name], check=True)


if __name__ == "__main__":
    main()
