#include "common/rights.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

namespace slice {
namespace {

struct Sets {
  std::uint64_t permitted = 0, effective = 0, inheritable = 0;
};

Sets of_this_thread() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> raw{};
  EXPECT_EQ(::syscall(SYS_capget, &header, raw.data()), 0);
  auto both = [&raw](auto field) { return raw[0].*field | std::uint64_t{raw[1].*field} << 32; };
  return {both(&__user_cap_data_struct::permitted), both(&__user_cap_data_struct::effective),
          both(&__user_cap_data_struct::inheritable)};
}

constexpr std::uint64_t bit(unsigned capability) {
  return std::uint64_t{1} << capability;
}

// On threads of their own, since what is given up does not come back.
TEST(Capabilities, AllButThoseNamedAreGivenUp) {
  const std::uint64_t before = of_this_thread().permitted;
  std::thread([before] {
    ASSERT_TRUE(keep_capabilities({CAP_NET_ADMIN, CAP_CHECKPOINT_RESTORE}));
    const std::uint64_t left = before & (bit(CAP_NET_ADMIN) | bit(CAP_CHECKPOINT_RESTORE));
    EXPECT_EQ(of_this_thread().permitted, left);
    EXPECT_EQ(of_this_thread().effective, left);
    EXPECT_EQ(of_this_thread().inheritable, 0u);
    EXPECT_EQ(::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
    std::thread([left] { EXPECT_EQ(of_this_thread().permitted, left) << "a thread that it starts"; }).join();
    ASSERT_TRUE(keep_capabilities({CAP_NET_ADMIN, CAP_SYS_ADMIN}));
    EXPECT_EQ(of_this_thread().permitted, before & bit(CAP_NET_ADMIN)) << "one came back";
  }).join();
  EXPECT_EQ(of_this_thread().permitted, before) << "another thread's are its own";
}

TEST(Capabilities, AllCanBeGivenUp) {
  std::thread([] {
    ASSERT_TRUE(keep_capabilities({}));
    EXPECT_EQ(of_this_thread().permitted, 0u);
    ASSERT_TRUE(keep_capabilities({})) << "again, without any";
  }).join();
}

}  // namespace
}  // namespace slice
