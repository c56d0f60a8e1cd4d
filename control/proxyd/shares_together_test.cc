// Several proxies and the manager, as they divide clients among them, on simulated time: what each does is
// ClientShare's and ClientShares' own, while processes are killed and started, cut off from the manager,
// stop, and the address moves.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "common/log.h"
#include "common/manual_loop.h"
#include "control/manager/client_shares.h"
#include "control/proxyd/client_share.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kVirtual = 0x0a4d0101, kProxies = 4, kNobody = kProxies;
constexpr std::uint16_t kNfs = 2049;
constexpr Duration kStep = 50ms;
// A client is with a proxy that is dead, or does not serve, for so long at most, while the manager is there:
// each of several that die one after another, before a change is through, costs a patience.
constexpr Duration kLongestGap = 9s;

// What is a host's kernel's: it outlives processes.
struct Kernel {
  // Where packets of a slot go: the number of a proxy.
  std::uint32_t way(std::uint32_t slot, std::uint32_t self) const {
    return slots[slot] == 0 ? self : ways[slots[slot]].next_hop_mac[5];
  }
  bool has = false;           // the virtual address at the interface
  MonoTime loopback_until{};  // and at the other one
  std::vector<std::uint64_t> slots = std::vector<std::uint64_t>(SLICE_CLIENT_SLOTS);
  std::vector<slice_way> ways = std::vector<slice_way>(SLICE_MAX_SPREAD);
};

// One process. A killed one is kept, hears nothing, and does nothing any more.
struct Process : AddressHost {
  Process(const Loop& loop_in, Kernel& kernel_in, std::uint32_t number_in)
      : loop(loop_in), kernel(kernel_in), number(number_in), started(loop_in.now()) {
    tables.spread = kernel.slots.data();
    tables.ways = kernel.ways.data();
  }
  void kill() {
    killed = true;
    tables.spread = nullptr;
  }

  Look look() override {
    return {.has = kernel.has,
            .at_loopback = loop.now() < kernel.loopback_until,
            .unfit = {},
            .unshared = {},
            .interface = 7,
            .hardware = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(number)}};
  }
  Status put(unsigned) override { return {}; }
  Status take_off() override { return {}; }
  Status put_at_loopback(unsigned seconds) override {
    if (!killed) kernel.loopback_until = loop.now() + std::chrono::seconds(seconds);
    return {};
  }
  Status take_off_loopback() override {
    if (!killed) kernel.loopback_until = {};
    return {};
  }
  void drop_connections(const Keep&) override {}
  void announce() override {}
  void probe() override {}
  std::vector<wire::AddressPeer> peers() override { return {}; }
  void wake(const std::vector<wire::AddressPeer>&) override {}

  const Loop& loop;
  Kernel& kernel;
  const std::uint32_t number;
  const MonoTime started;
  bool killed = false, stopping = false, begun = false, remembers = true;
  MonoTime serves_until{}, told_at{};  // told_at: who serve, for the first time
  std::uint64_t anew = 0;
  Metrics metrics;
  Tables tables;
  std::optional<ClientShare> share;
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    for (std::uint32_t i = 0; i < kProxies; ++i) {
      members_.push_back(
          {.server = i, .role = wire::Role::kProxy, .endpoint = {}, .name = "p" + std::to_string(i)});
      kernels_.push_back(std::make_unique<Kernel>());
      processes_.emplace_back();
      cut_.push_back(false);
    }
    start_manager();
    for (std::uint32_t i = 0; i < kProxies; ++i) start(i);
    for (std::uint32_t client = 0; client < 80; ++client)
      slots_.push_back(slice_client_slot(SLICE_BE32(0x0a4d0200 + client * 7)));
  }
  ~World() {
    for (auto& each : all_) {
      each->kill();
      spawn(each->share->stop());
    }
    loop_.advance(30s);  // what is under way ends
  }

  // Faults for so long, each with some probability a step.
  void disturb(Duration time) {
    for (const MonoTime end = loop_.now() + time; loop_.now() < end;) {
      if (chance(40)) fault();
      step();
    }
  }
  // All that was broken is mended, and what stops yet is started again.
  void rest(Duration time) {
    cut_.assign(kProxies, false);
    if (!manager_) start_manager();
    for (const MonoTime end = loop_.now() + time; loop_.now() < end; step()) {
      for (std::uint32_t i = 0; i < kProxies; ++i)
        if (!alive(i)) start(i);
    }
  }
  void expect_all_share() {
    ASSERT_NE(holder_, kNobody);
    std::map<std::uint32_t, std::size_t> clients;
    for (std::uint32_t slot = 0; slot < SLICE_CLIENT_SLOTS; ++slot) {
      const std::uint32_t owner = kernels_[holder_]->way(slot, holder_);
      ++clients[owner];
      for (std::uint32_t i = 0; i < kProxies; ++i)
        ASSERT_EQ(kernels_[i]->way(slot, i), owner) << i << " at " << slot;
    }
    EXPECT_EQ(clients.size(), kProxies);
    for (std::uint32_t i = 0; i < kProxies; ++i) {
      EXPECT_TRUE(serves(i)) << i;
      EXPECT_TRUE(processes_[i]->remembers) << i;
    }
  }
  std::uint64_t changes() const { return changes_; }

 private:
  bool chance(unsigned of) { return random_() % of == 0; }
  bool alive(std::uint32_t i) const { return processes_[i] != nullptr && !processes_[i]->killed; }
  // The holder serves whoever is not another's, too.
  bool serves(std::uint32_t i) const {
    return alive(i) && (i == holder_ || loop_.now() <= processes_[i]->serves_until);
  }

  void start_manager() { manager_.emplace(loop_, 2s, members_, metrics_); }
  void start(std::uint32_t i) {
    auto process = std::make_shared<Process>(loop_, *kernels_[i], i);
    all_.push_back(process);
    processes_[i] = process;
    Process* p = process.get();
    process->share.emplace(
        ClientShare::Seams{.loop = loop_,
                           .metrics = process->metrics,
                           .host = *process,
                           .tables = process->tables,
                           .self = i,
                           .run = ++runs_,
                           .patience = 2s,
                           .addresses = {kVirtual},
                           .nfs_port = kNfs,
                           .name_of = [](std::uint32_t server) { return "p" + std::to_string(server); },
                           .ask = [this, i, p](const wire::ShareClientsArgs& args,
                                               Duration patience) { return ask(i, p, args, patience); },
                           .program = [] { return ClientShare::Program{.there = true, .reason = {}}; },
                           .holds = [this, i, p] { return !p->killed && holder_ == i; },
                           .begin_anew =
                               [p] {
                                 ++p->anew;
                                 return true;
                               },
                           .save = [this]() -> Task<void> { co_await loop_.sleep(20ms); },
                           .serve_until = [p](MonoTime end) { p->serves_until = end; },
                           .remember_nothing = [p](bool on) { p->remembers = !on; }});
    spawn([](World& world, Process& one) -> Task<void> {
      co_await one.share->start();
      co_await world.loop_.sleep(10ms);
      if (one.killed) co_return;
      one.share->begin();
      one.begun = true;
    }(*this, *process));
  }
  Task<Result<wire::ShareClientsResult>> ask(std::uint32_t i, Process* p, wire::ShareClientsArgs args,
                                             Duration patience) {
    co_await loop_.sleep(std::chrono::milliseconds(1 + random_() % 40));
    if (p->killed || cut_[i] || !manager_) {
      co_await loop_.sleep(patience);
      co_return fail(Errc::kUnavailable, "no answer");
    }
    wire::ShareClientsResult told = manager_->ask(args);
    co_await loop_.sleep(std::chrono::milliseconds(1 + random_() % 40));
    if (p->killed || cut_[i]) {
      co_await loop_.sleep(patience);
      co_return fail(Errc::kUnavailable, "no answer");
    }
    if (told.known && p->told_at == MonoTime{}) p->told_at = loop_.now();
    co_return told;
  }

  void fault() {
    const auto i = static_cast<std::uint32_t>(random_() % kProxies);
    switch (random_() % 6) {
      case 0:
        if (alive(i)) processes_[i]->kill();
        return;
      case 1:
      case 2:
        if (!alive(i)) start(i);
        return;
      case 3:
        cut_[i] = !cut_[i];
        return;
      case 4:
        if (chance(3)) {
          manager_.reset();
        } else if (!manager_) {
          start_manager();
        }
        return;
      default:
        if (!alive(i) || processes_[i]->stopping) return;
        processes_[i]->stopping = true;
        if (holder_ == i) give_address(kNobody);  // a proxy lets go of it first
        spawn([](std::shared_ptr<Process> process) -> Task<void> {
          co_await process->share->stop();
          process->kill();
        }(processes_[i]));
    }
  }
  void give_address(std::uint32_t to) {
    if (holder_ != kNobody) kernels_[holder_]->has = false;
    holder_ = to;
    if (to != kNobody) kernels_[to]->has = true;
  }
  // As the manager's lease does, without its care.
  void settle_address() {
    if (holder_ != kNobody && alive(holder_) && !processes_[holder_]->stopping &&
        (!cut_[holder_] || !manager_)) {
      held_at_ = loop_.now();
      return;
    }
    if (loop_.now() - held_at_ < 2s && holder_ != kNobody) return;
    for (std::uint32_t i = 0; i < kProxies; ++i)
      if (alive(i) && processes_[i]->begun && !processes_[i]->stopping && !cut_[i]) return give_address(i);
    give_address(kNobody);
  }

  void step() {
    loop_.advance(kStep);
    settle_address();
    if (holder_ == kNobody || !alive(holder_)) {
      ways_.clear();  // clients are cut off as a whole
      since_.clear();
      return;
    }
    for (std::uint32_t slot : slots_) {
      const std::uint32_t to = kernels_[holder_]->way(slot, holder_);
      look_at(slot, to);
      const auto was = ways_.find(slot);
      if (was != ways_.end() && was->second != to) moved(slot, was->second, to);
      ways_[slot] = to;
    }
    moved_holder_ = holder_;
  }
  // Of a proxy that is dead a client waits for the patience and a little.
  void look_at(std::uint32_t slot, std::uint32_t to) {
    if (serves(to) || !manager_ || cut_[holder_]) {
      since_.erase(slot);
      return;
    }
    const MonoTime since = since_.try_emplace(slot, loop_.now()).first->second;
    ASSERT_LT(loop_.now() - since, kLongestGap) << "clients are sent to p" << to << ", which does not serve";
  }
  // From one that lives, and hears the manager, nobody gets clients whose files it alone knows something of,
  // nor to one that shows what it knew of old.
  void moved(std::uint32_t slot, std::uint32_t from, std::uint32_t to) {
    ++changes_;
    // Where manager and holder have both begun, nobody knows where clients were.
    if (loop_.now() - processes_[holder_]->told_at <= 2 * kStep) return;
    if (!serves(from) || cut_[from] || moved_holder_ != holder_ || !manager_) return;
    EXPECT_FALSE(processes_[from]->remembers)
        << "slot " << slot << " from p" << from << " to p" << to << " at "
        << in_milliseconds(loop_.now() - MonoTime{}) << ", started at "
        << in_milliseconds(processes_[from]->started - MonoTime{}) << ", holder p" << holder_;
    if (alive(to)) EXPECT_GT(processes_[to]->anew, 0u);
  }

  ManualLoop loop_;
  Metrics metrics_;
  std::mt19937_64 random_;
  std::vector<wire::ServerEntry> members_;
  std::optional<manager::ClientShares> manager_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::shared_ptr<Process>> processes_;
  std::vector<std::shared_ptr<Process>> all_;
  std::vector<bool> cut_;
  std::vector<std::uint32_t> slots_;
  std::map<std::uint32_t, std::uint32_t> ways_;
  std::map<std::uint32_t, MonoTime> since_;
  std::uint32_t holder_ = kNobody, moved_holder_ = kNobody;
  MonoTime held_at_{};
  std::uint64_t runs_ = 0, changes_ = 0;
};

TEST(SharesTogether, WhateverHappensAllShareInTheEndAndNoClientIsLeft) {
  set_log_level(LogLevel::kError);
  std::uint64_t changes = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    for (int round = 0; round < 3; ++round) {
      world.disturb(20s);
      world.rest(15s);
      world.expect_all_share();
      if (::testing::Test::HasFailure()) return;
    }
    changes += world.changes();
  }
  EXPECT_GT(changes, 1000u) << "nothing was tried";
}

}  // namespace
}  // namespace slice::proxy
