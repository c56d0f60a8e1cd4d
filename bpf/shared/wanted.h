// Values of the pinned table `wanted` (docs/formats/maps.md), by which an operator
// asks slice-proxyd for moves of sites. The XDP program does not look at it.
#ifndef SLICE_BPF_SHARED_WANTED_H
#define SLICE_BPF_SHARED_WANTED_H

#include "bpf/shared/base.h"

// `wanted`: ARRAY of u32, mmapable, keys as those of `sites`; the value is the number
// of the server that the site is to go to, 0: none. In memory the kernel lays the
// values of an array 8 bytes apart.
struct slice_wanted_slot {
  uint32_t server;
  uint32_t reserved;
};
SLICE_STATIC_ASSERT(sizeof(struct slice_wanted_slot) == 8, "as the kernel lays values");

#endif  // SLICE_BPF_SHARED_WANTED_H
