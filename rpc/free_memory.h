// What the allocator keeps of memory that was freed goes back to the system.
#ifndef SLICE_RPC_FREE_MEMORY_H
#define SLICE_RPC_FREE_MEMORY_H

namespace slice::rpc {

// Of this process's allocator, whichever that is (programs are linked with tcmalloc, tests mostly are not),
// and of what it keeps for this thread. Costs a system call a stretch of free pages, and their next use a
// fault each: for after much was freed.
void give_back_free_memory();

}  // namespace slice::rpc

#endif  // SLICE_RPC_FREE_MEMORY_H
