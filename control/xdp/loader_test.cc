// The loader on the kernel that this machine runs: the program on both kinds of attachment, what a kernel
// that refuses it makes of that, and the tables of a run before. In a network namespace of its own; needs
// root.
#include "control/xdp/loader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "control/xdp/pinned_tables.h"
#include "control/xdp/testing/shell.h"
#include "service/testing/sample_config.h"

namespace slice::proxy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::run;

// A thread without some rights.
class WithoutRights {
 public:
  explicit WithoutRights(std::initializer_list<unsigned> rights) {
    header_.version = _LINUX_CAPABILITY_VERSION_3;
    if (::syscall(SYS_capget, &header_, before_) != 0) std::abort();
    __user_cap_data_struct less[2] = {before_[0], before_[1]};
    for (unsigned right : rights) less[right / 32].effective &= ~(1u << right % 32);
    if (::syscall(SYS_capset, &header_, less) != 0) std::abort();
  }
  ~WithoutRights() { ::syscall(SYS_capset, &header_, before_); }

 private:
  __user_cap_header_struct header_{};
  __user_cap_data_struct before_[2]{};
};

class LoaderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "root is needed";
    ASSERT_TRUE(
        run("ip link add one type veth peer name two && ip addr add 10.77.9.1/24 dev one && "
            "ip link set one up && ip link set two up"));
  }
  void SetUp() override {
    config_.bpf_folder = fmt::format("/sys/fs/bpf/slice-loader-test-{}", ::getpid());
    config_.interfaces = {"one"};
  }
  void TearDown() override {
    Loader::take_off(config_);
    std::filesystem::remove_all(config_.bpf_folder);
  }
  // What is at the interface: 0 nothing, else XDP_ATTACHED_*.
  static int attached() {
    bpf_xdp_query_opts at{};
    at.sz = sizeof at;
    auto index = static_cast<int>(::if_nametoindex("one"));
    return bpf_xdp_query(index, 0, &at) == 0 && at.prog_id != 0 ? at.attach_mode : 0;
  }
  static Result<std::unique_ptr<Loader>> load(const ProxyConfig& config) {
    auto loader = Loader::open(config);
    if (!loader) return loader;
    if (Status status = (*loader)->load_program(config); !status) return fail(status.error());
    return loader;
  }
  static std::string refused(const ProxyConfig& config) {
    // What the verifier asks for before it lets a program subtract packet pointers: every kernel refuses the
    // program without it, as it refuses one that it does not understand.
    WithoutRights here({CAP_PERFMON, CAP_SYS_ADMIN});
    auto loader = load(config);
    if (loader) return "loaded";
    EXPECT_EQ(loader.error().code, Errc::kDenied);
    return loader.error().message;
  }
  ProxyConfig config_;
};

// What is in a pinned table.
template <class Value>
bool read(const ProxyConfig& config, const char* map, std::uint32_t key, Value& out) {
  const int fd = bpf_obj_get((config.bpf_folder + "/" + map).c_str());
  const bool found = fd >= 0 && bpf_map_lookup_elem(fd, &key, &out) == 0;
  if (fd >= 0) ::close(fd);
  return found;
}

TEST_F(LoaderTest, IsVerifiedFarBelowTheLimit) {
  auto loader = load(config_);
  ASSERT_TRUE(loader) << loader.error().message;
  std::uint32_t id = 0;
  ASSERT_TRUE(read(config_, "tail_calls", SLICE_PROGRAM_IPV6, id));
  const int ipv6 = bpf_prog_get_fd_by_id(id);
  for (int fd : {(*loader)->program_fd(), ipv6}) {
    bpf_prog_info info{};
    std::uint32_t size = sizeof info;
    ASSERT_EQ(bpf_obj_get_info_by_fd(fd, &info, &size), 0);
    RecordProperty(std::string("verified_instructions_") + info.name, std::to_string(info.verified_insns));
    std::printf("verified instructions of %s: %u of at most 1000000\n", info.name, info.verified_insns);
    EXPECT_GT(info.verified_insns, 0u);
    EXPECT_LT(info.verified_insns, 500000u) << "the next kernel may need twice as many";
  }
  ::close(ipv6);
}

TEST_F(LoaderTest, AttachesNatively) {
  config_.xdp = ProxyConfig::Xdp::kNative;
  auto loader = load(config_);
  ASSERT_TRUE(loader) << loader.error().message;
  (*loader)->attach(config_);
  EXPECT_EQ((*loader)->describe(), "native one");
  EXPECT_EQ(attached(), XDP_ATTACHED_DRV);
  (*loader)->detach();
  EXPECT_EQ(attached(), 0);
}

TEST_F(LoaderTest, AttachesGenerically) {
  config_.xdp = ProxyConfig::Xdp::kGeneric;
  auto loader = load(config_);
  ASSERT_TRUE(loader) << loader.error().message;
  (*loader)->attach(config_);
  EXPECT_EQ((*loader)->describe(), "generic one");
  EXPECT_EQ(attached(), XDP_ATTACHED_SKB);
}

TEST_F(LoaderTest, TheProgramKnowsOfIpv6AndHowItRuns) {
  const auto* one = "one";
  std::uint32_t value = 0;
  for (auto mode : {ProxyConfig::Xdp::kGeneric, ProxyConfig::Xdp::kNative}) {
    config_.xdp = mode;
    config_.second_address = *parse_address(mode == ProxyConfig::Xdp::kGeneric ? "fd77::1" : "fd77::2");
    auto loader = load(config_);
    ASSERT_TRUE(loader) << loader.error().message;
    (*loader)->attach(config_);
    EXPECT_EQ(read(config_, "generic", ::if_nametoindex(one), value), mode == ProxyConfig::Xdp::kGeneric);
    slice_config6 config{};
    ASSERT_TRUE(read(config_, "config6", 0, config));
    EXPECT_EQ(IpAddress::of_bytes(config.virtual_ipv6, sizeof config.virtual_ipv6), config_.second_address);
    EXPECT_TRUE(read(config_, "tail_calls", SLICE_PROGRAM_IPV6, value));
  }
}

TEST_F(LoaderTest, ARefusalNamesTheKernelAndTheVerifiersLastLine) {
  utsname kernel{};
  ::uname(&kernel);
  std::string said = refused(config_);
  EXPECT_THAT(said, HasSubstr(fmt::format("the kernel {} refuses the XDP program: ", kernel.release)));
  EXPECT_THAT(said, ::testing::ContainsRegex("pointer|R[0-9]")) << "not the verifier's words";
  EXPECT_THAT(said, ::testing::AllOf(Not(HasSubstr("\n")), Not(HasSubstr("processed "))));
  EXPECT_LT(said.size(), 300u);
}

TEST_F(LoaderTest, ARefusalLeavesTheTablesOfARunBefore) {
  {
    auto loader = load(config_);
    ASSERT_TRUE(loader) << loader.error().message;
    ASSERT_TRUE((*loader)->pinned());
    (*loader)->tables().config->generation = 77;
  }
  refused(config_);
  auto loader = load(config_);
  ASSERT_TRUE(loader) << loader.error().message;
  EXPECT_TRUE((*loader)->reused());
  EXPECT_EQ((*loader)->tables().config->generation, 77u);
}

// One that knew no IPv6 had fewer of them.
TEST_F(LoaderTest, TablesOfAnOlderVersionAreTakenOver) {
  {
    auto loader = load(config_);
    ASSERT_TRUE(loader) << loader.error().message;
    (*loader)->tables().config->generation = 77;
  }
  for (const char* table : {"config6", "servers6", "pending6", "sources6", "tail_calls", "generic"})
    ASSERT_TRUE(std::filesystem::remove(config_.bpf_folder + "/" + table)) << table;
  auto loader = load(config_);
  ASSERT_TRUE(loader) << loader.error().message;
  EXPECT_TRUE((*loader)->reused());
  EXPECT_EQ((*loader)->tables().config->generation, 77u);
  (*loader)->attach(config_);
  EXPECT_NE(attached(), 0);
  std::uint32_t value = 0;
  EXPECT_TRUE(read(config_, "tail_calls", SLICE_PROGRAM_IPV6, value));
}

TEST_F(LoaderTest, ThePinnedTablesOfARunBeforeCanBeReadWithoutTheProgram) {
  EnsembleConfig ensemble = service::testing::sample_config();
  ensemble.proxy.bpf_folder = config_.bpf_folder;
  EXPECT_FALSE(pinned_tables(ensemble)) << "nothing is there";
  wire::Tables tables = routing::RoutingTables::initial(ensemble);
  tables.generation = Generation{6};
  tables.sites[2][0] = ensemble.find("store2")->index;
  {
    auto loader = load(config_);
    ASSERT_TRUE(loader) << loader.error().message;
    EXPECT_FALSE(pinned_tables(ensemble)) << "nothing is in them";
    auto routing = routing::RoutingTables::make(ensemble, tables);
    ASSERT_TRUE(routing);
    fill_config(**routing, *(*loader)->tables().config);
    bind_sites(tables, (*loader)->tables());
  }
  auto found = pinned_tables(ensemble);
  ASSERT_TRUE(found);
  EXPECT_EQ(wire::digest(*found), wire::digest(tables));
  EnsembleConfig other = ensemble;
  other.volume.id = VolumeId{9};
  EXPECT_FALSE(pinned_tables(other)) << "of another volume";
  other = ensemble;
  std::swap(other.servers[ensemble.find("store2")->index], other.servers[ensemble.find("coord1")->index]);
  for (std::uint32_t i = 0; i < other.servers.size(); ++i) other.servers[i].index = i;
  EXPECT_FALSE(pinned_tables(other)) << "a storage site at a coordinator";
  other = ensemble;
  other.proxy.xdp = ProxyConfig::Xdp::kOff;
  EXPECT_FALSE(pinned_tables(other)) << "nobody keeps them";
}

// A proxy that was killed leaves its program where it is; the next one may have to do without.
TEST_F(LoaderTest, WhatIsWrittenIntoThePinnedTableOfWishesIsSeenAndCleared) {
  auto loader = load(config_);
  ASSERT_TRUE(loader) << loader.error().message;
  const std::uint32_t key = slice_site_key(SLICE_CLASS_STORAGE, 17), number = 7;
  int fd = bpf_obj_get((config_.bpf_folder + "/wanted").c_str());
  ASSERT_GE(fd, 0);
  ASSERT_EQ(bpf_map_update_elem(fd, &key, &number, BPF_ANY), 0);
  const Tables& tables = (*loader)->tables();
  EXPECT_EQ(tables.wanted[key].server, number);
  EXPECT_EQ(tables.wanted[key + 1].server, 0u);
  tables.wanted[key].server = 0;
  std::uint32_t read = 1;
  ASSERT_EQ(bpf_map_lookup_elem(fd, &key, &read), 0);
  EXPECT_EQ(read, 0u);
  ::close(fd);
}

TEST_F(LoaderTest, TheProgramOfARunBeforeIsTakenOff) {
  for (auto mode : {ProxyConfig::Xdp::kNative, ProxyConfig::Xdp::kGeneric}) {
    config_.xdp = mode;
    {
      auto loader = load(config_);
      ASSERT_TRUE(loader) << loader.error().message;
      (*loader)->attach(config_);
    }
    EXPECT_NE(attached(), 0);
    Loader::take_off(config_);
    EXPECT_EQ(attached(), 0);
  }
}

// As the package's unit runs it: without CAP_SYS_ADMIN the kernel shows no program by its id.
TEST_F(LoaderTest, TheProgramOfARunBeforeIsKnownWithTheUnitsRightsAlone) {
  WithoutRights here({CAP_SYS_ADMIN});
  for (auto mode : {ProxyConfig::Xdp::kNative, ProxyConfig::Xdp::kGeneric}) {
    config_.xdp = mode;
    for (int run = 0; run < 3; ++run) {
      auto loader = load(config_);
      ASSERT_TRUE(loader) << loader.error().message;
      if (run == 1) continue;  // killed before it attaches
      (*loader)->attach(config_);
      EXPECT_NE((*loader)->describe(), "none") << "run " << run;
    }
    Loader::take_off(config_);
    EXPECT_EQ(attached(), 0);
  }
  std::size_t pins = 0;
  for (const auto& entry : std::filesystem::directory_iterator(config_.bpf_folder)) {
    if (entry.path().filename().string().starts_with("program")) ++pins;
  }
  EXPECT_EQ(pins, 1u) << "programs of runs before stay pinned";
}

// Which stays where it is.
TEST_F(LoaderTest, AProgramOfSomebodyElseIsLeftAlone) {
  ProxyConfig others = config_;
  others.bpf_folder += "-other";
  auto theirs = load(others);
  ASSERT_TRUE(theirs) << theirs.error().message;
  (*theirs)->attach(others);
  WithoutRights here({CAP_SYS_ADMIN});  // with it, it is known by its name
  auto loader = load(config_);
  ASSERT_TRUE(loader) << loader.error().message;
  (*loader)->attach(config_);
  EXPECT_EQ((*loader)->describe(), "none");
  EXPECT_NE(attached(), 0);
  Loader::take_off(others);
  std::filesystem::remove_all(others.bpf_folder);
}

}  // namespace
}  // namespace slice::proxy
