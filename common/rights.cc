#include "common/rights.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace slice {

bool keep_capabilities(std::initializer_list<unsigned> wanted) {
  std::uint64_t keep = 0;
  for (unsigned capability : wanted) keep |= std::uint64_t{1} << capability;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return false;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    sets[i].permitted &= static_cast<std::uint32_t>(keep >> 32 * i);
    sets[i].effective &= sets[i].permitted;
    sets[i].inheritable = 0;
  }
  return ::syscall(SYS_capset, &header, sets.data()) == 0;
}

}  // namespace slice
