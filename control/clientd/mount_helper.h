// mount.slice: what mount(8) calls for file systems of type slice.
#ifndef SLICE_CONTROL_CLIENTD_MOUNT_HELPER_H
#define SLICE_CONTROL_CLIENTD_MOUNT_HELPER_H

namespace slice::clientd {

// Has a proxy for the virtual server run on this host, and mounts from it. The exit code, of mount(8): 0, 1
// wrong usage or no right to, 32 failed.
int mount_slice(int argc, char** argv);

}  // namespace slice::clientd

#endif  // SLICE_CONTROL_CLIENTD_MOUNT_HELPER_H
