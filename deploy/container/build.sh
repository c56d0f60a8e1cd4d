#!/usr/bin/env bash
# build.sh [IMAGE [PACKAGES]]: an image, localhost/slice, of the packages in a folder, build/packages, where `./slice package` puts them. Its base,
# localhost/slice-base, is a minimal Debian 12 that mmdebstrap makes of the archives of this machine's apt; one that is there already is used.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=${1:-localhost/slice}
packages=${2:-$here/../../build/packages}

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$packages"/slice-{common,server,proxy,ctl}_*.deb "$here/entry" "$context"

if ! podman image exists localhost/slice-base; then
  mmdebstrap --variant=apt --include=debian-archive-keyring,ca-certificates bookworm "$context/base.tar"
  podman import "$context/base.tar" localhost/slice-base
  rm "$context/base.tar"
fi
# In a chroot: an image needs no more, and where containers themselves may not run it can be made.
podman build --isolation=chroot --network=host --pull=never --file "$here/Containerfile" --tag "$image" "$context"
