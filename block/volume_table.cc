#include "block/volume_table.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace slice::block {
namespace {

using namespace std::chrono_literals;

constexpr Duration kListEvery = 5s, kAskTimeout = 10s;

}  // namespace

VolumeTable::VolumeTable(Loop& loop, const EnsembleConfig& config, DataPath& path, Metrics& metrics,
                         Options options)
    : loop_(loop),
      config_(config),
      path_(path),
      options_(std::move(options)),
      figures_(metrics),
      opened_(metrics.counter("volume_opens_total", "raw volumes that were opened")),
      open_(metrics.gauge("volume_open", "raw volumes that are open")),
      names_(options_.only),
      opening_(loop),
      next_client_(static_cast<std::uint32_t>(options_.seed)) {
  spawn(keep_listing());
}

service::Names VolumeTable::ask() const {
  return {loop_, path_.channel(), config_, path_.tables(), kAskTimeout};
}

Task<void> VolumeTable::keep_listing() {
  for (;;) {
    std::erase_if(volumes_, [](const auto& each) { return each.second.expired(); });
    open_.set(volumes_.size());
    if (options_.only.empty()) {
      service::Names by = ask();
      if (auto names = co_await RawVolumes(config_, by).names()) names_ = std::move(*names);
    }
    co_await loop_.sleep(kListEvery);
  }
}

Task<Result<std::shared_ptr<Device>>> VolumeTable::open(std::string name) {
  if (!options_.only.empty() && std::ranges::find(options_.only, name) == options_.only.end())
    co_return fail(Errc::kNotFound, "raw volume {} is not served here", name);
  const auto one = co_await opening_.lock();
  if (lost_.contains(name)) {
    co_return fail(
        Errc::kStale,
        "raw volume {} was open here, and was opened elsewhere since: SIGHUP, or a restart, takes it back",
        name);
  }
  if (auto shared = volumes_[name].lock()) co_return std::shared_ptr<Device>(std::move(shared));
  co_return co_await open_anew(std::move(name));
}

Task<Result<std::shared_ptr<Device>>> VolumeTable::open_anew(std::string name) {
  service::Names by = ask();
  auto volume = co_await RawVolumes(config_, by).open(name);
  if (!volume) co_return fail(std::move(volume.error()));
  // The port tells this host's openers apart, and these from clients that mount.
  const auto seed = next_client_++;
  const FileCalls::Options calls{.name = {path_.own_address(), static_cast<std::uint16_t>(seed % 0xffff + 1)},
                                 .first_xid = seed * 0x9e3779b1u,
                                 .patience = options_.patience};
  auto opened =
      std::make_shared<OpenVolume>(loop_,
                                   std::make_unique<FileCalls>(
                                       loop_,
                                       [this](proxy::Client& client, Buffer message) {
                                         return path_.worker().take(client, std::move(message));
                                       },
                                       volume->file.bytes, calls),
                                   OpenVolume::Options{.name = name,
                                                       .begin = volume->begin,
                                                       .size = volume->size(),
                                                       .stripe_unit = volume->stripe_unit(),
                                                       .opening = volume->epoch().value,
                                                       .patience = options_.patience,
                                                       .on_taken_away = [this, name] { lost_.insert(name); }},
                                   figures_);
  volumes_[name] = opened;
  opened_.add();
  open_.set(volumes_.size());
  log_info("volume {}: opened: {} bytes, epoch {}", name, volume->size(), volume->epoch().value);
  co_return std::shared_ptr<Device>(std::move(opened));
}

Task<Status> VolumeTable::flush_all() {
  std::vector<std::shared_ptr<OpenVolume>> open;
  for (const auto& [name, volume] : volumes_) {
    if (auto shared = volume.lock()) open.push_back(std::move(shared));
  }
  Status first;
  for (const auto& volume : open) {
    Status flushed = co_await volume->flush();
    if (!flushed && first) first = std::move(flushed);
  }
  co_return first;
}

}  // namespace slice::block
