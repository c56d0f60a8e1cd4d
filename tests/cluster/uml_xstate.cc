// Preloaded into user-mode Linux so that it boots on processors with more register state than it knows.
//
// UML 6.1 saves and restores its processes' extended registers through ptrace with a buffer of 2,696 bytes,
// which fits AVX-512. A processor with AMX has 11,008 bytes, and its kernel refuses a shorter
// PTRACE_SETREGSET with EFAULT ("ptrace set fp regs failed, errno = 14"). The missing tail is state that the
// guest's processes never enabled, so writing zeros there is exact. On other processors the call passes
// through unchanged.

#include <dlfcn.h>
#include <elf.h>
#include <sys/uio.h>

#include <cstring>

namespace {

constexpr std::size_t kLargestState = 64 * 1024;
// Of <sys/ptrace.h>, whose own declaration of ptrace would be in the way.
constexpr long kGetRegset = 0x4204;
constexpr long kSetRegset = 0x4205;

using PtraceFunction = long (*)(long request, long pid, void* address, void* data);

long write_whole_state(PtraceFunction next, long pid, const iovec& given) {
  static char state[kLargestState];  // one thread calls this, on a stack too small for it
  static std::size_t full_size = 0;
  if (full_size == 0) {
    iovec probe{state, sizeof state};
    if (next(kGetRegset, pid, reinterpret_cast<void*>(NT_X86_XSTATE), &probe) < 0) return -1;
    full_size = probe.iov_len;
  }
  iovec whole = given;
  if (given.iov_len < full_size) {
    std::memcpy(state, given.iov_base, given.iov_len);
    std::memset(state + given.iov_len, 0, full_size - given.iov_len);
    whole = {state, full_size};
  }
  return next(kSetRegset, pid, reinterpret_cast<void*>(NT_X86_XSTATE), &whole);
}

}  // namespace

// The C library declares it with variable arguments, which the calling convention passes as these.
extern "C" long ptrace(long request, long pid, void* address, void* data) noexcept {
  static const auto next = reinterpret_cast<PtraceFunction>(dlsym(RTLD_NEXT, "ptrace"));
  if (request == kSetRegset && reinterpret_cast<long>(address) == NT_X86_XSTATE) {
    return write_whole_state(next, pid, *static_cast<const iovec*>(data));
  }
  return next(request, pid, address, data);
}
