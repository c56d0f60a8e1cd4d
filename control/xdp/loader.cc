#include "control/xdp/loader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "bpf/shared/outcomes.h"
#include "common/log.h"
#include "rpc/interface_addresses.h"
#include "slice_proxy.skel.h"

namespace slice::proxy {
namespace {

constexpr const char* kProgramName = "slice_proxy";
// Where the program is pinned; those of runs before, which may be at interfaces still, are beside it with
// their id behind the name.
constexpr const char* kPinName = "program";
// Of our filter among those that an interface may have, so that it replaces one of a run before, and no
// other.
constexpr std::uint32_t kFilter = 20490;
// The verifier's errors and figures alone: never much, so that the last words fit. With its steps they are
// megabytes, of which Linux 6.1 keeps the beginning.
constexpr std::uint32_t kVerifierErrors = 4;
constexpr std::size_t kVerifierLog = 64 << 10;  // bytes

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

std::string kernel_release() {
  utsname info{};
  return ::uname(&info) == 0 ? info.release : "of unknown release";
}

// The last line of a verifier's log that is not one of its figures; empty where it says nothing.
std::string_view last_complaint(std::string_view log) {
  std::string_view last;
  while (!log.empty()) {
    std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    bool figure = line.empty() || line.starts_with("processed ") || line.starts_with("verification time ") ||
                  line.starts_with("stack depth ");
    if (!figure) last = line;
  }
  return last;
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

// Virtual interfaces (veth, bridges, bonds) have no device behind them.
bool is_network_card(const std::string& interface) {
  return ::access(("/sys/class/net/" + interface + "/device").c_str(), F_OK) == 0;
}

// A native program on a bond runs at its links and is told their numbers, while routes name the bond: sources
// and replies would seem to come astray.
bool is_bond(const std::string& interface) {
  return ::access(("/sys/class/net/" + interface + "/bonding").c_str(), F_OK) == 0;
}

Status not_taken(std::string_view what, int error) {
  Errc code = error == -EPERM || error == -EACCES ? Errc::kDenied : Errc::kIo;
  return fail(code, "the kernel {} does not take the {}: {}", kernel_release(), what, std::strerror(-error));
}

// Not what libbpf makes for a program's own constants.
bool is_table(const bpf_map* map) {
  return std::string_view(bpf_map__name(map)).find('.') == std::string_view::npos;
}

std::uint32_t id_of(int program_fd) {
  bpf_prog_info info{};
  std::uint32_t size = sizeof info;
  return bpf_obj_get_info_by_fd(program_fd, &info, &size) == 0 ? info.id : 0;
}

}  // namespace

// Which programs are ours, of this run or one before: those that are pinned in the folder, and all of our
// name where the kernel lets us see a program by its id, which takes CAP_SYS_ADMIN.
class OurPrograms {
 public:
  explicit OurPrograms(const std::string& folder) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (!entry.path().filename().string().starts_with(kPinName)) continue;
      int fd = bpf_obj_get(entry.path().c_str());
      if (fd < 0) continue;
      pinned_.insert(id_of(fd));
      ::close(fd);
    }
  }
  bool have(std::uint32_t id) const { return pinned_.contains(id) || is_of_our_name(id); }

 private:
  static bool is_of_our_name(std::uint32_t id) {
    int fd = bpf_prog_get_fd_by_id(id);
    if (fd < 0) return false;
    bpf_prog_info info{};
    std::uint32_t size = sizeof info;
    bool ours = bpf_obj_get_info_by_fd(fd, &info, &size) == 0 && std::strcmp(info.name, kProgramName) == 0;
    ::close(fd);
    return ours;
  }
  std::set<std::uint32_t> pinned_;
};

namespace {

// When they are at no interface any more.
void forget_programs_before(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(fmt::format("{}-", kPinName))) {
      ::unlink(entry.path().c_str());
    }
  }
}

enum class At { kNone, kNative, kGeneric, kSomebodyElses };

// Whose program is at an interface, and how it is attached.
At program_at(int ifindex, const OurPrograms& ours) {
  bpf_xdp_query_opts old{};
  old.sz = sizeof old;
  if (bpf_xdp_query(ifindex, 0, &old) != 0 || old.prog_id == 0) return At::kNone;
  if (!ours.have(old.prog_id)) return At::kSomebodyElses;
  return old.attach_mode == XDP_ATTACHED_DRV ? At::kNative : At::kGeneric;
}

void detach_from(int ifindex, bool native) {
  bpf_xdp_detach(ifindex, native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE, nullptr);
}

struct Filter {
  bpf_tc_hook hook;
  bpf_tc_opts options;
  // libbpf refuses padding that is not zero.
  explicit Filter(unsigned ifindex) {
    std::memset(&hook, 0, sizeof hook);
    std::memset(&options, 0, sizeof options);
    hook.sz = sizeof hook;
    hook.ifindex = static_cast<int>(ifindex);
    hook.attach_point = BPF_TC_INGRESS;
    options.sz = sizeof options;
    options.handle = options.priority = kFilter;
  }
};

void detach_filter(unsigned ifindex) {
  Filter ours(ifindex);
  (void)bpf_tc_detach(&ours.hook, &ours.options);
}

std::vector<std::string> interfaces_of(const ProxyConfig& config) {
  return config.interfaces.empty() ? usual_interfaces() : config.interfaces;
}

}  // namespace

std::vector<std::string> usual_interfaces() {
  std::set<std::string> names;
  for (const rpc::InterfaceAddress& each : rpc::interface_addresses()) {
    if (each.up && !each.loopback && !each.address.is_link_local()) names.insert(each.interface);
  }
  return {names.begin(), names.end()};
}

struct Loader::Skeleton {
  ::slice_proxy* bpf = slice_proxy__open();
  ~Skeleton() {
    if (bpf != nullptr) slice_proxy__destroy(bpf);
  }
};

Result<std::unique_ptr<Loader>> Loader::open(const ProxyConfig& config) {
  libbpf_set_print(print_libbpf);
  std::unique_ptr<Loader> loader(new Loader());
  Status opened = loader->make_maps(config, false);
  if (!opened && opened.error().code != Errc::kDenied && loader->reused_) {
    // Tables of another version of the program are of no use to this one.
    log_warning("cannot take over the tables in {} ({}): making new ones", config.bpf_folder,
                opened.error().message);
    opened = loader->make_maps(config, true);
  }
  if (!opened) return fail(std::move(opened).error());
  SLICE_RETURN_IF_ERROR(loader->map_tables());
  SLICE_RETURN_IF_ERROR(loader->set_virtual_ipv6(config.address_of(false)));
  return loader;
}

Status Loader::make_maps(const ProxyConfig& config, bool fresh) {
  maps_ = std::make_unique<Skeleton>();
  if (maps_->bpf == nullptr) return fail(Errc::kIo, "cannot open the XDP program: {}", std::strerror(errno));
  SLICE_RETURN_IF_ERROR(pin_maps(config, fresh));
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, maps_->bpf->obj) bpf_program__set_autoload(program, false);
  if (int error = slice_proxy__load(maps_->bpf); error != 0)
    return not_taken("tables of the XDP program", error);
  slice_config old{};
  std::uint32_t zero = 0;
  if (bpf_map_lookup_elem(bpf_map__fd(maps_->bpf->maps.config), &zero, &old) == 0 && old.abi != 0 &&
      old.abi != SLICE_MAP_ABI) {
    return fail(Errc::kInvalid, "their layout is version {}, not {}", old.abi, SLICE_MAP_ABI);
  }
  return {};
}

Status Loader::pin_maps(const ProxyConfig& config, bool fresh) {
  pinned_ = prepare_folder(config.bpf_folder);
  reused_ = false;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, maps_->bpf->obj) {
    if (!pinned_ || !is_table(map)) continue;
    std::string path = config.bpf_folder + "/" + bpf_map__name(map);
    if (fresh) ::unlink(path.c_str());
    reused_ = reused_ || ::access(path.c_str(), F_OK) == 0;
    if (bpf_map__set_pin_path(map, path.c_str()) != 0) return fail(Errc::kIo, "cannot pin at {}", path);
  }
  return {};
}

Status Loader::share_maps() {
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, program_->bpf->obj) {
    if (!is_table(map)) continue;
    const bpf_map* made = bpf_object__find_map_by_name(maps_->bpf->obj, bpf_map__name(map));
    if (int error = bpf_map__reuse_fd(map, bpf_map__fd(made)); error != 0) {
      return fail(Errc::kIo, "cannot share the table {}: {}", bpf_map__name(map), std::strerror(-error));
    }
  }
  return {};
}

Status Loader::load_program(const ProxyConfig& config) {
  program_ = std::make_unique<Skeleton>();
  if (program_->bpf == nullptr) {
    return fail(Errc::kIo, "cannot open the XDP program: {}", std::strerror(errno));
  }
  SLICE_RETURN_IF_ERROR(share_maps());
  std::map<bpf_program*, std::vector<char>> said;
  for (bpf_program* program : {program_->bpf->progs.slice_proxy, program_->bpf->progs.slice_proxy6}) {
    std::vector<char>& log = said[program];
    log.assign(kVerifierLog, '\0');
    bpf_program__set_log_buf(program, log.data(), log.size());
    bpf_program__set_log_level(program, kVerifierErrors);
  }
  int error = slice_proxy__load(program_->bpf);
  for (auto& [program, log] : said) bpf_program__set_log_buf(program, nullptr, 0);
  for (auto& [program, log] : said) {
    if (error == 0 || last_complaint(log.data()).empty()) continue;
    return fail(Errc::kDenied, "the kernel {} refuses the XDP program: {} ({})", kernel_release(),
                last_complaint(log.data()), std::strerror(-error));
  }
  if (error != 0) return not_taken("XDP program", error);
  const std::uint32_t ipv6 = SLICE_PROGRAM_IPV6;
  const int fd = bpf_program__fd(program_->bpf->progs.slice_proxy6);
  if (bpf_map_update_elem(bpf_map__fd(maps_->bpf->maps.tail_calls), &ipv6, &fd, BPF_ANY) != 0)
    return not_taken("program of IPv6 behind the XDP program", -errno);
  pin_program(config);
  return {};
}

void Loader::pin_program(const ProxyConfig& config) {
  if (!pinned_) {
    log_warning("{} is not on a BPF file system: the tables are not pinned", config.bpf_folder);
    return;
  }
  std::string path = config.bpf_folder + "/" + kPinName;
  if (int old = bpf_obj_get(path.c_str()); old >= 0) {
    ::rename(path.c_str(), fmt::format("{}-{}", path, id_of(old)).c_str());
    ::close(old);
  }
  if (bpf_program__pin(program_->bpf->progs.slice_proxy, path.c_str()) != 0) {
    log_warning("cannot pin the XDP program at {}", path);
  }
}

Status Loader::set_virtual_ipv6(IpAddress address) {
  slice_config6 config{};
  const IpAddress::Bytes bytes = address.bytes();
  std::copy(bytes.begin(), bytes.end(), config.virtual_ipv6);
  const std::uint32_t zero = 0;
  if (bpf_map_update_elem(bpf_map__fd(maps_->bpf->maps.config6), &zero, &config, BPF_ANY) == 0) return {};
  return fail(Errc::kIo, "cannot write into the table config6: {}", std::strerror(errno));
}

Status Loader::map_tables() {
  auto map = [this](bpf_map* which, std::size_t value, std::size_t entries) -> void* {
    std::size_t size = (((value + 7) & ~std::size_t{7}) * entries + 4095) & ~std::size_t{4095};
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(which), 0);
    if (at == MAP_FAILED) return nullptr;
    mappings_.emplace_back(at, size);
    return at;
  };
  auto& maps = maps_->bpf->maps;
  tables_.config = static_cast<slice_config*>(map(maps.config, sizeof(slice_config), 1));
  tables_.sites =
      static_cast<slice_site*>(map(maps.sites, sizeof(slice_site), SLICE_CLASSES * SLICE_MAX_SITES));
  tables_.servers = static_cast<slice_server*>(map(maps.servers, sizeof(slice_server), SLICE_MAX_SERVERS));
  tables_.servers6 =
      static_cast<slice_server6*>(map(maps.servers6, sizeof(slice_server6), SLICE_MAX_SERVERS));
  tables_.attributes =
      static_cast<slice_attr_bucket*>(map(maps.attributes, sizeof(slice_attr_bucket), SLICE_ATTR_BUCKETS));
  tables_.sources =
      static_cast<std::uint64_t*>(map(maps.sources, sizeof(std::uint64_t), SLICE_SOURCE_ENTRIES));
  tables_.sources6 =
      static_cast<slice_source6*>(map(maps.sources6, sizeof(slice_source6), SLICE_SOURCE_ENTRIES));
  tables_.wanted = static_cast<slice_wanted_slot*>(
      map(maps.wanted, sizeof(std::uint32_t), SLICE_CLASSES * SLICE_MAX_SITES));
  tables_.copies = static_cast<std::uint64_t*>(map(maps.copies, sizeof(std::uint64_t), SLICE_MAX_SITES));
  tables_.spread = static_cast<std::uint64_t*>(map(maps.spread, sizeof(std::uint64_t), SLICE_CLIENT_SLOTS));
  tables_.ways = static_cast<slice_way*>(map(maps.ways, sizeof(slice_way), SLICE_MAX_SPREAD));
  if (tables_.spread == nullptr || tables_.ways == nullptr || tables_.sources == nullptr ||
      tables_.wanted == nullptr || tables_.config == nullptr || tables_.sites == nullptr ||
      tables_.servers == nullptr || tables_.attributes == nullptr || tables_.servers6 == nullptr ||
      tables_.sources6 == nullptr || tables_.copies == nullptr) {
    return fail(Errc::kIo, "cannot map the tables: {}", std::strerror(errno));
  }
  return {};
}

Loader::~Loader() {
  for (auto [at, size] : mappings_) ::munmap(at, size);
}

int Loader::program_fd() const {
  return bpf_program__fd(program_->bpf->progs.slice_proxy);
}
int Loader::evictions_fd() const {
  return bpf_map__fd(maps_->bpf->maps.evictions);
}
int Loader::orphans_fd() const {
  return bpf_map__fd(maps_->bpf->maps.orphans);
}

void Loader::attach(const ProxyConfig& config) {
  const bool first = tried_.empty();
  std::vector<std::string> come;
  for (const std::string& name : interfaces_of(config)) {
    if (tried_.emplace(name, ::if_nametoindex(name.c_str())).second) come.push_back(name);
  }
  if (come.empty() && !first) return;
  OurPrograms ours(config.bpf_folder);
  for (const std::string& name : come) attach_one(name, config.xdp, ours);
  if (first) forget_programs_before(config.bpf_folder);
  bool cards = !attached_.empty() && std::all_of(attached_.begin(), attached_.end(), [](const Attached& one) {
    return one.native && is_network_card(one.interface);
  });
  std::uint32_t flags = tables_.config->flags & ~SLICE_CONFIG_CARDS;
  *reinterpret_cast<volatile std::uint32_t*>(&tables_.config->flags) =
      flags | (cards ? SLICE_CONFIG_CARDS : 0);
  log_info("XDP: {}", describe());
}

void Loader::note_generic(std::uint32_t ifindex, bool generic) {
  const int map = bpf_map__fd(maps_->bpf->maps.generic);
  const std::uint32_t one = 1;
  const int error = generic ? bpf_map_update_elem(map, &ifindex, &one, BPF_ANY)
                            : (bpf_map_delete_elem(map, &ifindex) != 0 && errno != ENOENT);
  if (error != 0) log_warning("cannot note how XDP runs at interface {}: {}", ifindex, std::strerror(errno));
}

bool Loader::attach_one(const std::string& interface, ProxyConfig::Xdp mode, const OurPrograms& ours) {
  unsigned ifindex = ::if_nametoindex(interface.c_str());
  if (ifindex == 0) {
    log_warning("XDP: there is no interface {}", interface);
    return false;
  }
  if (is_bond(interface)) {
    log_info("XDP: {} is a bond, and takes a generic program only", interface);
    if (mode == ProxyConfig::Xdp::kNative) return false;
    mode = ProxyConfig::Xdp::kGeneric;
  }
  auto index = static_cast<int>(ifindex);
  At old = program_at(index, ours);
  if (old == At::kSomebodyElses) {
    log_warning("XDP: {} has a program of somebody else, which stays", interface);
    return false;
  }
  // Ours, of a run before: a native one is replaced in place, so that no packet sees a gap.
  bool keep = old == At::kNative && mode != ProxyConfig::Xdp::kGeneric;
  if (old != At::kNone && !keep) detach_from(index, old == At::kNative);
  int error = -EOPNOTSUPP;
  if (mode != ProxyConfig::Xdp::kGeneric) {
    note_generic(ifindex, false);
    error = bpf_xdp_attach(index, program_fd(), XDP_FLAGS_DRV_MODE, nullptr);
    if (error == 0) {
      attached_.push_back({interface, ifindex, true});
      return true;
    }
    log_info("XDP: {} takes no native program: {}", interface, std::strerror(-error));
    if (mode == ProxyConfig::Xdp::kNative) return false;
  }
  note_generic(ifindex, true);
  error = bpf_xdp_attach(index, program_fd(), XDP_FLAGS_SKB_MODE, nullptr);
  if (error != 0) {
    log_warning("XDP: {} takes no generic program either: {}", interface, std::strerror(-error));
    return false;
  }
  attached_.push_back({interface, ifindex, false});
  return true;
}

std::vector<std::string> Loader::attached_interfaces() const {
  std::vector<std::string> names;
  for (const Attached& one : attached_) names.push_back(one.interface);
  return names;
}

std::string Loader::describe() const {
  std::string native, generic;
  for (const Attached& one : attached_) (one.native ? native : generic) += " " + one.interface;
  if (attached_.empty()) return "none";
  if (generic.empty()) return "native" + native;
  if (native.empty()) return "generic" + generic;
  return "native" + native + "; generic" + generic;
}

Status Loader::attach_spread(const std::string& interface) {
  const unsigned ifindex = ::if_nametoindex(interface.c_str());
  if (ifindex == 0) return fail(Errc::kUnavailable, "there is no interface {}", interface);
  if (ifindex == spread_at_) return {};
  Filter ours(ifindex);
  if (int error = bpf_tc_hook_create(&ours.hook); error != 0 && error != -EEXIST)
    return not_taken("filter of TCP at " + interface, error);
  ours.options.prog_fd = bpf_program__fd(program_->bpf->progs.slice_spread);
  ours.options.flags = BPF_TC_F_REPLACE;
  if (int error = bpf_tc_attach(&ours.hook, &ours.options); error != 0)
    return not_taken("filter of TCP at " + interface, error);
  spread_at_ = ifindex;
  return {};
}

void Loader::detach() {
  if (spread_at_ != 0) detach_filter(std::exchange(spread_at_, 0));
  for (const Attached& one : attached_) detach_from(static_cast<int>(one.ifindex), one.native);
  attached_.clear();
}

void Loader::take_off(const ProxyConfig& config) {
  OurPrograms ours(config.bpf_folder);
  for (const std::string& name : interfaces_of(config)) {
    auto index = static_cast<int>(::if_nametoindex(name.c_str()));
    if (index != 0) detach_filter(static_cast<unsigned>(index));
    At old = index == 0 ? At::kNone : program_at(index, ours);
    if (old != At::kNative && old != At::kGeneric) continue;
    detach_from(index, old == At::kNative);
    log_info("XDP: the program of a run before is taken off {}", name);
  }
}

void Loader::export_outcomes(Metrics& metrics) const {
  int processors = libbpf_num_possible_cpus();
  if (processors <= 0) return;
  std::vector<std::uint64_t> values(static_cast<std::size_t>(processors));
  int fd = bpf_map__fd(maps_->bpf->maps.outcomes);
  for (std::uint32_t outcome = 0; outcome < SLICE_OUTCOME_COUNT; ++outcome) {
    const char* name = slice_outcome_name(outcome);
    if (name == nullptr || bpf_map_lookup_elem(fd, &outcome, values.data()) != 0) continue;
    std::uint64_t sum = 0;
    for (std::uint64_t value : values) sum += value;
    metrics
        .counter("xdp_outcomes_total",
                 "packets, by what XDP did with them (bpf/shared/outcomes.h), as of the moment of reading",
                 {{"outcome", name}})
        .set(sum);
  }
}

}  // namespace slice::proxy
