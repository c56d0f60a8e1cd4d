// The shared headers are plain C: this translation unit fails to compile when
// one of them is not, and hands C++ a value to compare layouts with.
#include "bpf/shared/attributes.h"
#include "bpf/shared/file_handle.h"
#include "bpf/shared/map_abi.h"
#include "bpf/shared/outcomes.h"
#include "bpf/shared/reply.h"
#include "bpf/shared/routing.h"

size_t slice_c_layout_sum(void);

size_t slice_c_layout_sum(void) {
  return sizeof(struct slice_handle) + sizeof(struct slice_config) * 3 + sizeof(struct slice_server) * 5 +
         sizeof(struct slice_pending) * 7 + sizeof(struct slice_attr_bucket) * 11 +
         sizeof(struct slice_eviction) * 13 + sizeof(struct slice_request) * 17 +
         offsetof(struct slice_attr_bucket, entry) * 19 + offsetof(struct slice_pending, fileid) * 23 +
         sizeof(struct slice_server6) * 29 + offsetof(struct slice_pending6, fileid) * 31;
}
