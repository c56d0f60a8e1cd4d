#!/usr/bin/env python3
"""Prints whom Prometheus has to ask for the metrics of an ensemble, as file_sd_configs reads it: each [[server]] of an
ensemble.toml at its metrics port, with the labels `ensemble`, `server` and `role`.

    targets.py /etc/slice/ensemble.toml > /etc/prometheus/slice.json
"""

import json
import pathlib
import sys
import tomllib

DEFAULT_PORT = 10049  # [metrics] port


def targets(config):
    metrics = config.get("metrics")
    if metrics is None:
        raise SystemExit("targets.py: the file has no [metrics]: its servers serve none (docs/metrics.md)")
    port = metrics.get("port", DEFAULT_PORT)
    return [{"targets": [f"{server['address']}:{server.get('metrics_port', port)}"],
             "labels": {"ensemble": config["name"], "server": server["name"], "role": server["role"]}} for server in config["server"]]


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    try:
        config = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"targets.py: {sys.argv[1]}: {error}")
    print(json.dumps(targets(config), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
