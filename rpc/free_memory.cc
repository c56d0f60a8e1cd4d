#include "rpc/free_memory.h"

#include <malloc.h>

// tcmalloc's, which are there where a program is linked with it. It has no malloc_trim(): that one would trim
// glibc's heap, where nothing is.
extern "C" {
void MallocExtension_MarkThreadTemporarilyIdle() __attribute__((weak));
void MallocExtension_ReleaseFreeMemory() __attribute__((weak));
}

namespace slice::rpc {

void give_back_free_memory() {
  if (&MallocExtension_ReleaseFreeMemory == nullptr) {
    ::malloc_trim(0);
    return;
  }
  // A thread keeps up to 32 MiB of what it freed, in pieces of up to 256 KiB, for itself.
  if (&MallocExtension_MarkThreadTemporarilyIdle != nullptr) ::MallocExtension_MarkThreadTemporarilyIdle();
  ::MallocExtension_ReleaseFreeMemory();
}

}  // namespace slice::rpc
