#include "wire/routes.h"

#include <gtest/gtest.h>

#include "rpc/xdr.h"

namespace slice::wire {
namespace {

Routes some() {
  Routes routes{.generation = Generation{12},
                .changed = true,
                .volume = 7,
                .policy = 1,
                .name_hash = 1,
                .maps = true,
                .threshold = 65536,
                .mkdir_limit = 1 << 20,
                .servers = {{0x0a4d0302, 2049}, {}, {0x0a4d0402, 2050}}};
  for (auto& sites : routes.sites) sites = {0, 2, kUnbound, 2};
  return routes;
}

bool is_read(const Routes& routes) {
  rpc::XdrWriter out;
  encode(out, routes);
  Routes read;
  return decode(out.view(), read);
}

TEST(RoutesMessages, AreReadAsTheyWereWritten) {
  rpc::XdrWriter out;
  encode(out, some());
  Routes read;
  ASSERT_TRUE(decode(out.view(), read));
  EXPECT_EQ(read.generation, Generation{12});
  EXPECT_TRUE(read.changed && read.maps);
  EXPECT_EQ(read.volume, 7u);
  EXPECT_EQ(read.policy, 1u);
  EXPECT_EQ(read.name_hash, 1u);
  EXPECT_EQ(read.threshold, 65536u);
  EXPECT_EQ(read.mkdir_limit, 1u << 20);
  EXPECT_EQ(read.servers, some().servers);
  for (const auto& sites : read.sites) EXPECT_EQ(sites, (std::vector<std::uint32_t>{0, 2, kUnbound, 2}));

  rpc::XdrWriter question;
  encode(question, RoutesArgs{Generation{12}});
  RoutesArgs args;
  ASSERT_TRUE(decode(question.view(), args));
  EXPECT_EQ(args.known, Generation{12});
}

TEST(RoutesMessages, NothingFollowsWhereNothingChanged) {
  Routes same = some();
  same.changed = false;
  rpc::XdrWriter out;
  encode(out, same);
  EXPECT_EQ(out.size(), 12u);
  Routes read;
  ASSERT_TRUE(decode(out.view(), read));
  EXPECT_TRUE(read.servers.empty());
}

TEST(RoutesMessages, WhatCannotBeFollowedIsRefused) {
  EXPECT_TRUE(is_read(some()));
  Routes nobody = some();
  nobody.sites[2][1] = 3;  // there are three servers
  EXPECT_FALSE(is_read(nobody));
  Routes odd = some();
  odd.sites[0].push_back(0);
  EXPECT_FALSE(is_read(odd));
  Routes none = some();
  none.sites[3].clear();
  EXPECT_FALSE(is_read(none));
  Routes unknown = some();
  unknown.policy = 2;
  EXPECT_FALSE(is_read(unknown));
}

TEST(RoutesMessages, WhatIsCutShortOrTooLongIsNone) {
  rpc::XdrWriter out;
  encode(out, some());
  Routes read;
  for (std::size_t bytes = 0; bytes < out.size(); ++bytes)
    EXPECT_FALSE(decode(out.view().first(bytes), read)) << bytes;
  out.u32(0);
  EXPECT_FALSE(decode(out.view(), read));
}

}  // namespace
}  // namespace slice::wire
