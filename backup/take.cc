#include "backup/take.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "backup/format.h"
#include "dirserver/cells/cells.h"
#include "fsck/object_cursor.h"
#include "service/internal_call.h"
#include "service/managers.h"
#include "wire/nfs_status.h"

namespace slice::backup {
namespace {

using wire::ServerEntry;
using wire::SnapshotResult;
using wire::SnapshotStep;

constexpr unsigned kTries = 10;  // for a moment at which all keep still
constexpr Duration kPause = std::chrono::milliseconds(200);
constexpr Duration kStepTimeout = wire::kMostHeld;
constexpr std::uint32_t kScanBytes = 256 << 10;  // so that clients are not held up for long
constexpr std::size_t kImagesAtOnce = 16;

class Taker {
 public:
  explicit Taker(TakeSeams seams) : seams_(std::move(seams)), taken_at_(seams_.loop.wall()) {
    for (const ServerEntry& each : seams_.tables->wire().servers) {
      if (each.lost.value != 0) continue;
      if (each.role == wire::Role::kDirectory) directories_.push_back(each);
      if (each.role == wire::Role::kSmallFile) small_files_.push_back(each);
    }
    std::random_device random;
    number_ = std::uint64_t{random()} << 32 | random() | 1;
  }

  Task<Result<Taken>> run() {
    SLICE_CO_RETURN_IF_ERROR(co_await take_snapshot());
    Status read = co_await read_all();
    co_await step_of_all(SnapshotStep::kDrop);
    if (!read) co_return fail(std::move(read).error());
    co_return taken_;
  }

 private:
  template <class R, class Procedure, class Args>
  Task<Result<R>> ask(const ServerEntry& server, std::uint32_t program, Procedure procedure, Args args,
                      Duration timeout) {
    auto result = co_await service::internal_call<R>(seams_.channel, server.endpoint, program, procedure,
                                                     args, timeout);
    if (!result) co_return fail(result.error(), server.name);
    co_return std::move(*result);
  }

  // ---- the moment ----

  Task<Status> take_snapshot() {
    Status taken;
    for (unsigned tries = 0; tries < kTries; ++tries) {
      if (tries > 0) co_await seams_.loop.sleep(kPause);
      const MonoTime begun = seams_.loop.now();
      taken = co_await try_snapshot();
      co_await step_of_all(SnapshotStep::kRelease);
      taken_.held = seams_.loop.now() - begun;
      if (taken) co_return Status{};
      co_await step_of_all(SnapshotStep::kDrop);
    }
    co_return fail(taken.error(), "no moment was found that is the same at all directory servers");
  }

  Task<Status> try_snapshot() {
    std::vector<SnapshotResult> all;
    for (SnapshotStep step : {SnapshotStep::kHold, SnapshotStep::kFreeze, SnapshotStep::kTake}) {
      all.clear();
      for (auto& each : co_await step_of_all(step)) {
        if (!each) co_return fail(std::move(each).error());
        all.push_back(std::move(*each));
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].status != nfs3::Status::kOk)
          co_return fail(Errc::kUnavailable, "{} answered {}", directories_[i].name,
                         nfs3::status_name(all[i].status));
      }
    }
    co_return note_sites(all);
  }

  // Each site is at one server: none was about to be switched to another.
  Status note_sites(std::vector<SnapshotResult>& all) {
    const std::uint32_t count = seams_.config.site_counts[static_cast<std::size_t>(ServerRole::kDirectory)];
    std::vector<unsigned> times(count);
    sites_.clear();
    for (SnapshotResult& each : all) {
      for (std::uint32_t site : each.sites) {
        if (site < count) ++times[site];
      }
      sites_.push_back(std::move(each.sites));
    }
    for (std::uint32_t site = 0; site < count; ++site) {
      if (times[site] != 1)
        return fail(Errc::kUnavailable, "{} servers have directory site {}", times[site], site);
    }
    return {};
  }

  Task<std::vector<Result<SnapshotResult>>> step_of_all(SnapshotStep step) {
    std::vector<Task<Result<SnapshotResult>>> asked;
    for (const ServerEntry& each : directories_) {
      asked.push_back(ask<SnapshotResult>(each, wire::kScanProgram, wire::ScanProcedure::kSnapshot,
                                          wire::SnapshotArgs{step, number_}, kStepTimeout));
    }
    co_return co_await slice::all(std::move(asked));
  }

  // ---- what they have ----

  Task<Status> read_all() {
    std::vector<Task<Status>> reading;
    for (std::size_t i = 0; i < directories_.size(); ++i)
      reading.push_back(read_cells(directories_[i], sites_[i]));
    for (const ServerEntry& each : small_files_) reading.push_back(read_files(each));
    for (Status& each : co_await slice::all(std::move(reading))) {
      if (!each) co_return std::move(each);
    }
    co_return co_await read_manager();
  }

  Result<std::unique_ptr<Writer>> begin(const std::string& server, wire::Role role,
                                        std::vector<std::uint32_t> sites) {
    return Writer::make(seams_.folder + "/" + server + kSuffix, {.volume = seams_.config.volume.id,
                                                                 .role = role,
                                                                 .server = server,
                                                                 .made_for = made_for(seams_.config, role),
                                                                 .taken = taken_at_,
                                                                 .sites = std::move(sites)});
  }

  Status end(Writer& writer, const std::string& server, std::string_view what) {
    SLICE_RETURN_IF_ERROR(writer.finish());
    seams_.say(fmt::format("{}: {} {}", server, writer.records(), what));
    return {};
  }

  Task<Status> read_cells(const ServerEntry& server, std::vector<std::uint32_t> sites) {
    auto writer = begin(server.name, server.role, sites);
    if (!writer) co_return fail(std::move(writer).error());
    for (std::uint32_t site : sites) {
      dirserver::KeyRange left = dirserver::range_of(SiteId{site});
      while (!left.begin.empty()) {
        auto page = co_await ask<wire::ScanResult>(server, wire::kScanProgram, wire::ScanProcedure::kScan,
                                                   wire::ScanArgs{.site = SiteId{site},
                                                                  .keys = {},
                                                                  .begin = left.begin,
                                                                  .end = left.end,
                                                                  .limit = kScanBytes,
                                                                  .snapshot = number_},
                                                   seams_.timeout);
        if (!page) co_return fail(std::move(page).error());
        if (page->status != nfs3::Status::kOk)
          co_return fail(Errc::kUnavailable, "{} does not keep the moment any more", server.name);
        if (!page->gaps.empty())
          co_return fail(Errc::kCorrupt, "{} has cells of site {} that cannot be read: {}", server.name, site,
                         page->gaps.front().reason);
        for (Cell& cell : page->cells) SLICE_CO_RETURN_IF_ERROR((*writer)->add(std::move(cell)));
        left.begin = page->next;
      }
    }
    taken_.cells += (*writer)->records();
    co_return end(**writer, server.name, "cells");
  }

  Task<Status> read_files(const ServerEntry& server) {
    auto writer = begin(server.name, server.role, wire::sites_of(seams_.tables->wire(), server.name));
    if (!writer) co_return fail(std::move(writer).error());
    service::RemoteObjects objects(seams_.channel, server, seams_.timeout);
    fsck::ObjectCursor files(objects, seams_.config.volume.id);
    std::vector<FileId> some;
    while (true) {
      auto file = co_await files.at();
      if (!file) co_return fail(std::move(file).error());
      if (*file) {
        files.next();
        // Of a site that was moved to another server it may have some yet.
        if (owns(server, **file)) some.push_back(**file);
      }
      if (!*file || some.size() == kImagesAtOnce) {
        SLICE_CO_RETURN_IF_ERROR(co_await read_some(server, **writer, std::exchange(some, {})));
      }
      if (!*file) break;
    }
    taken_.files += (*writer)->records();
    co_return end(**writer, server.name, "files");
  }

  bool owns(const ServerEntry& server, FileId file) const {
    return seams_.tables->owns(server.server, wire::Role::kSmallFile, seams_.tables->small_file_site(file));
  }

  Task<Status> read_some(const ServerEntry& server, Writer& writer, std::vector<FileId> files) {
    std::vector<Task<Result<std::optional<Image>>>> asked;
    for (FileId file : files)
      asked.push_back(read_file(server, {seams_.config.volume.id, file, wire::ObjectKind::kFile}));
    for (auto& image : co_await slice::all(std::move(asked))) {
      if (!image) co_return fail(std::move(image).error());
      if (*image) SLICE_CO_RETURN_IF_ERROR(writer.add(std::move(**image)));
    }
    co_return Status{};
  }

  // Nothing: it has been removed.
  Task<Result<std::optional<Image>>> read_file(const ServerEntry& server, wire::ObjectName object) {
    std::optional<Image> image;
    for (std::uint64_t offset = 0;;) {
      auto page =
          co_await ask<wire::ObjectImageResult>(server, wire::kObjectProgram, wire::ObjectProcedure::kImage,
                                                wire::ObjectImageArgs{object, offset}, seams_.timeout);
      if (!page) co_return fail(std::move(page).error());
      const bool gone = page->status == nfs3::Status::kNoEnt || page->status == nfs3::Status::kStale;
      if (gone) co_return std::optional<Image>();
      if (page->status != nfs3::Status::kOk)
        co_return fail(Errc::kIo, "{} cannot read file {:#x}: {}", server.name, object.fileid.value,
                       nfs3::status_name(page->status));
      // Changed between its pages: from its beginning.
      const bool same = image && image->epoch == page->epoch && image->mtime == page->mtime;
      if (offset == 0 || !same) {
        const bool again = offset != 0;
        image = Image{object.fileid, page->end, page->epoch, page->mtime, {}};
        offset = 0;
        if (again) continue;
      }
      std::move(page->runs.begin(), page->runs.end(), std::back_inserter(image->runs));
      offset = page->next;
      if (offset == 0) co_return image;
    }
  }

  Task<Status> read_manager() {
    const ServerConfig& manager = *seams_.config.first(ServerRole::kManager);
    auto writer = begin(manager.name, wire::Role::kManager, {});
    if (!writer) co_return fail(std::move(writer).error());
    service::Managers managers(seams_.config);
    auto state = co_await managers.call<wire::StateResult>(seams_.channel, wire::ManagerProcedure::kGetState,
                                                           service::NoArguments{}, seams_.timeout);
    if (!state) co_return fail(state.error(), manager.name);
    if (state->files.empty()) co_return fail(Errc::kUnavailable, "{} has no state", manager.name);
    for (StateFile& file : state->files) SLICE_CO_RETURN_IF_ERROR((*writer)->add(std::move(file)));
    co_return end(**writer, manager.name, "files of its state");
  }

  const TakeSeams seams_;
  const WallTime taken_at_;
  std::vector<ServerEntry> directories_, small_files_;
  std::vector<std::vector<std::uint32_t>> sites_;  // of directories_
  std::uint64_t number_ = 0;                       // of the moment
  Taken taken_;
};

Task<Result<Taken>> run(std::unique_ptr<Taker> taker) {
  co_return co_await taker->run();
}

}  // namespace

Task<Result<Taken>> take_backup(TakeSeams seams) {
  return run(std::make_unique<Taker>(std::move(seams)));
}

}  // namespace slice::backup
