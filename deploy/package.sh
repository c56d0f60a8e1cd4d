#!/usr/bin/env bash
# Makes Debian packages of the release build (debian/rules): build/packages/*.deb, the only ones there. With --built
# programs and manual pages are taken as they are, and nothing is built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The version is that of CMakeLists.txt; the packages' changelog has to follow it.
version=$(sed -n 's/^project(slice VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
packaged=$(dpkg-parsechangelog -S Version)
if [ "$version" != "$packaged" ]; then
  echo "slice: debian/changelog ends with version $packaged, CMakeLists.txt has $version: add an entry" >&2
  exit 1
fi
if ! said=$(dpkg-checkbuilddeps 2>&1); then
  echo "slice: deploy/packages.txt lacks what debian/control names: $said" >&2
  exit 1
fi

mkdir -p build/packages
rm -f build/packages/*.deb
debian/rules clean >/dev/null
[ "${1:-}" != --built ] || export SLICE_BUILT=yes
debian/rules binary
debian/rules clean >/dev/null
ls -l build/packages
