#include "control/proxy/loader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ifaddrs.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <set>

#include "bpf/shared/outcomes.h"
#include "common/log.h"
#include "slice_proxy.skel.h"

namespace slice::proxy {
namespace {

constexpr const char* kProgramName = "slice_proxy";

// libbpf's warnings go to our log; what it says besides is of no use to an operator.
int print_libbpf(libbpf_print_level level, const char* format, va_list arguments) {
  if (level > LIBBPF_WARN && !log_enabled(LogLevel::kDebug)) return 0;
  char line[512];
  int n = std::vsnprintf(line, sizeof line, format, arguments);
  std::string_view text(line,
                        std::min<std::size_t>(static_cast<std::size_t>(std::max(n, 0)), sizeof line - 1));
  while (text.ends_with('\n')) text.remove_suffix(1);
  log_debug("libbpf: {}", text);
  return 0;
}

bool on_bpffs(const std::string& path) {
  struct statfs info{};
  return ::statfs(path.c_str(), &info) == 0 && static_cast<std::uint64_t>(info.f_type) == BPF_FS_MAGIC;
}

// The folder on a BPF file system, mounted if need be; false where that cannot be had.
bool prepare_folder(const std::string& folder) {
  constexpr const char* kUsual = "/sys/fs/bpf";
  if (folder.starts_with(std::string(kUsual) + "/") && !on_bpffs(kUsual)) {
    ::mount("bpf", kUsual, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700");
  }
  for (std::size_t at = folder.find('/', 1); at != std::string::npos; at = folder.find('/', at + 1)) {
    ::mkdir(folder.substr(0, at).c_str(), 0700);
  }
  ::mkdir(folder.c_str(), 0700);
  return on_bpffs(folder);
}

// Interfaces that carry IPv4, but for loopback.
std::vector<std::string> usual_interfaces() {
  std::set<std::string> names;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  for (ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0) continue;
    names.insert(one->ifa_name);
  }
  ::freeifaddrs(all);
  return {names.begin(), names.end()};
}

// Virtual interfaces (veth, bridges, bonds) have no device behind them.
bool is_network_card(const std::string& interface) {
  return ::access(("/sys/class/net/" + interface + "/device").c_str(), F_OK) == 0;
}

// Whether the program with this id is one of ours, of this run or one before.
bool is_ours(std::uint32_t program_id) {
  int fd = bpf_prog_get_fd_by_id(program_id);
  if (fd < 0) return false;
  bpf_prog_info info{};
  std::uint32_t size = sizeof info;
  bool ours = bpf_obj_get_info_by_fd(fd, &info, &size) == 0 && std::strcmp(info.name, kProgramName) == 0;
  ::close(fd);
  return ours;
}

}  // namespace

struct Loader::Skeleton {
  ::slice_proxy* bpf = nullptr;
  ~Skeleton() {
    if (bpf != nullptr) slice_proxy__destroy(bpf);
  }
};

Result<std::unique_ptr<Loader>> Loader::load(const ProxyConfig& config) {
  libbpf_set_print(print_libbpf);
  std::unique_ptr<Loader> loader(new Loader());
  Status opened = loader->open(config, false);
  if (!opened) {
    // Tables of another version of the program are of no use to this one.
    log_warning("cannot take over the tables in {} ({}): making new ones", config.bpf_folder,
                opened.error().message);
    opened = loader->open(config, true);
  }
  if (!opened) return fail(std::move(opened).error());
  SLICE_RETURN_IF_ERROR(loader->map_tables());
  return loader;
}

Status Loader::open(const ProxyConfig& config, bool fresh) {
  skeleton_ = std::make_unique<Skeleton>();
  skeleton_->bpf = slice_proxy__open();
  if (skeleton_->bpf == nullptr)
    return fail(Errc::kIo, "cannot open the XDP program: {}", std::strerror(errno));
  pinned_ = prepare_folder(config.bpf_folder);
  reused_ = false;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, skeleton_->bpf->obj) {
    std::string name = bpf_map__name(map);
    if (!pinned_ || name.starts_with("slice_pr.") || name.find('.') != std::string::npos) continue;
    std::string path = config.bpf_folder + "/" + name;
    if (fresh) ::unlink(path.c_str());
    reused_ = reused_ || ::access(path.c_str(), F_OK) == 0;
    if (bpf_map__set_pin_path(map, path.c_str()) != 0) return fail(Errc::kIo, "cannot pin at {}", path);
  }
  if (int error = slice_proxy__load(skeleton_->bpf); error != 0) {
    return fail(Errc::kIo, "the kernel refuses the XDP program: {}", std::strerror(-error));
  }
  slice_config old{};
  std::uint32_t zero = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->bpf->maps.config), &zero, &old) == 0 && old.abi != 0 &&
      old.abi != SLICE_MAP_ABI) {
    return fail(Errc::kInvalid, "their layout is version {}, not {}", old.abi, SLICE_MAP_ABI);
  }
  if (pinned_) {
    std::string path = config.bpf_folder + "/program";
    ::unlink(path.c_str());
    if (bpf_program__pin(skeleton_->bpf->progs.slice_proxy, path.c_str()) != 0) {
      log_warning("cannot pin the XDP program at {}", path);
    }
  } else {
    log_warning("{} is not on a BPF file system: the tables are not pinned", config.bpf_folder);
  }
  return {};
}

Status Loader::map_tables() {
  auto map = [this](bpf_map* which, std::size_t value, std::size_t entries) -> void* {
    std::size_t size = (((value + 7) & ~std::size_t{7}) * entries + 4095) & ~std::size_t{4095};
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(which), 0);
    if (at == MAP_FAILED) return nullptr;
    mappings_.emplace_back(at, size);
    return at;
  };
  auto& maps = skeleton_->bpf->maps;
  tables_.config = static_cast<slice_config*>(map(maps.config, sizeof(slice_config), 1));
  tables_.sites =
      static_cast<slice_site*>(map(maps.sites, sizeof(slice_site), SLICE_CLASSES * SLICE_MAX_SITES));
  tables_.servers = static_cast<slice_server*>(map(maps.servers, sizeof(slice_server), SLICE_MAX_SERVERS));
  tables_.attributes =
      static_cast<slice_attr_bucket*>(map(maps.attributes, sizeof(slice_attr_bucket), SLICE_ATTR_BUCKETS));
  if (tables_.config == nullptr || tables_.sites == nullptr || tables_.servers == nullptr ||
      tables_.attributes == nullptr) {
    return fail(Errc::kIo, "cannot map the tables: {}", std::strerror(errno));
  }
  return {};
}

Loader::~Loader() {
  for (auto [at, size] : mappings_) ::munmap(at, size);
}

int Loader::program_fd() const {
  return bpf_program__fd(skeleton_->bpf->progs.slice_proxy);
}
int Loader::evictions_fd() const {
  return bpf_map__fd(skeleton_->bpf->maps.evictions);
}
int Loader::orphans_fd() const {
  return bpf_map__fd(skeleton_->bpf->maps.orphans);
}

void Loader::attach(const ProxyConfig& config) {
  for (const std::string& name : config.interfaces.empty() ? usual_interfaces() : config.interfaces) {
    attach_one(name, config.xdp);
  }
  bool cards = !attached_.empty() && std::all_of(attached_.begin(), attached_.end(), [](const Attached& one) {
    return one.native && is_network_card(one.interface);
  });
  std::uint32_t flags = tables_.config->flags & ~SLICE_CONFIG_CARDS;
  *reinterpret_cast<volatile std::uint32_t*>(&tables_.config->flags) =
      flags | (cards ? SLICE_CONFIG_CARDS : 0);
  log_info("XDP: {}", describe());
}

bool Loader::attach_one(const std::string& interface, ProxyConfig::Xdp mode) {
  unsigned ifindex = ::if_nametoindex(interface.c_str());
  if (ifindex == 0) {
    log_warning("XDP: there is no interface {}", interface);
    return false;
  }
  auto index = static_cast<int>(ifindex);
  bpf_xdp_query_opts old{};
  old.sz = sizeof old;
  if (bpf_xdp_query(index, 0, &old) == 0 && old.prog_id != 0) {
    if (!is_ours(old.prog_id)) {
      log_warning("XDP: {} has a program of somebody else, which stays", interface);
      return false;
    }
    // Ours, of a run before: a native one is replaced in place, so that no packet sees a gap.
    bool keep = old.attach_mode == XDP_ATTACHED_DRV && mode != ProxyConfig::Xdp::kGeneric;
    if (!keep)
      bpf_xdp_detach(index, old.attach_mode == XDP_ATTACHED_DRV ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE,
                     nullptr);
  }
  int error = -EOPNOTSUPP;
  if (mode != ProxyConfig::Xdp::kGeneric) {
    error = bpf_xdp_attach(index, program_fd(), XDP_FLAGS_DRV_MODE, nullptr);
    if (error == 0) {
      attached_.push_back({interface, ifindex, true});
      return true;
    }
    log_info("XDP: {} takes no native program: {}", interface, std::strerror(-error));
    if (mode == ProxyConfig::Xdp::kNative) return false;
  }
  error = bpf_xdp_attach(index, program_fd(), XDP_FLAGS_SKB_MODE, nullptr);
  if (error != 0) {
    log_warning("XDP: {} takes no generic program either: {}", interface, std::strerror(-error));
    return false;
  }
  attached_.push_back({interface, ifindex, false});
  return true;
}

std::string Loader::describe() const {
  std::string native, generic;
  for (const Attached& one : attached_) (one.native ? native : generic) += " " + one.interface;
  if (attached_.empty()) return "none";
  if (generic.empty()) return "native" + native;
  if (native.empty()) return "generic" + generic;
  return "native" + native + "; generic" + generic;
}

void Loader::detach() {
  for (const Attached& one : attached_) {
    bpf_xdp_detach(static_cast<int>(one.ifindex), one.native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE,
                   nullptr);
  }
  attached_.clear();
}

void Loader::export_outcomes(Metrics& metrics) const {
  int processors = libbpf_num_possible_cpus();
  if (processors <= 0) return;
  std::vector<std::uint64_t> values(static_cast<std::size_t>(processors));
  int fd = bpf_map__fd(skeleton_->bpf->maps.outcomes);
  for (std::uint32_t outcome = 0; outcome < SLICE_OUTCOME_COUNT; ++outcome) {
    const char* name = slice_outcome_name(outcome);
    if (name == nullptr || bpf_map_lookup_elem(fd, &outcome, values.data()) != 0) continue;
    std::uint64_t sum = 0;
    for (std::uint64_t value : values) sum += value;
    metrics.counter(fmt::format("xdp_outcomes_total{{outcome=\"{}\"}}", name)).set(sum);
  }
}

}  // namespace slice::proxy
