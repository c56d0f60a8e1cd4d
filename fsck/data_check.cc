#include "fsck/data_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "dirserver/cells/cells.h"
#include "dirserver/fsck/keys.h"
#include "fsck/object_cursor.h"
#include "routing/copies.h"

namespace slice::fsck {
namespace {

using dirserver::AttributeCell;
using dirserver::CellKind;
using dirserver::fsck::Finding;
using dirserver::fsck::home_of;
using dirserver::fsck::Kind;
using service::ObjectSource;
using wire::ObjectName;
using State = wire::ScanValue::State;

constexpr std::size_t kAtOnce = 64;       // files that are looked at together
constexpr std::uint64_t kBytesEach = 64;  // of a suspect

using Holders = std::vector<ObjectSource*>;

class DataCheck {
 public:
  DataCheck(const DataSeams& seams, const dirserver::fsck::Options& options, dirserver::fsck::Report& report)
      : seams_(seams),
        options_(options),
        report_(report),
        most_suspects_(std::max<std::uint64_t>(options.suspect_bytes / kBytesEach, 64)) {
    for (const auto& server : seams.servers) cursors_.emplace_back(*server, seams.config.volume.id);
  }

  Task<Status> run() {
    for (std::uint32_t site = 0; site < seams_.cells.sites(); ++site) {
      SLICE_CO_RETURN_IF_ERROR(co_await read_site(SiteId{site}));
    }
    SLICE_CO_RETURN_IF_ERROR(co_await pass_objects(std::nullopt));
    SLICE_CO_RETURN_IF_ERROR(co_await look_at_batch());
    const std::uint64_t bytes = report_.totals.object_bytes, unmapped = report_.unmapped;
    for (unsigned look = 0; !cases_.empty() && look < options_.looks; ++look) {
      if (look > 0) co_await seams_.loop.sleep(options_.pause);
      if (seams_.refresh) SLICE_CO_RETURN_IF_ERROR(co_await seams_.refresh());
      SLICE_CO_RETURN_IF_ERROR(co_await look_again());
    }
    // What is looked at again counts once.
    report_.totals.object_bytes = bytes;
    report_.unmapped = unmapped;
    report_.busy += cases_.size();
    report_.sort();
    co_return Status{};
  }

 private:
  struct File {
    AttributeCell cell;
    Holders holders;
  };
  // How often in a row a file was found wrong in the same way.
  struct Case {
    std::string mark;
    unsigned stood = 0;
  };

  Task<Status> read_site(SiteId site) {
    dirserver::fsck::Cursor cells(seams_.cells, site, dirserver::range_of(site, CellKind::kAttributes));
    while (true) {
      auto there = co_await cells.fill();
      if (!there) co_return fail(std::move(there).error());
      if (!*there) co_return Status{};
      const FileId file = dirserver::fsck::file_of(cells.cell().key);
      SLICE_CO_RETURN_IF_ERROR(co_await pass_objects(file));
      auto holders = co_await holders_at(file);
      if (!holders) co_return fail(std::move(holders).error());
      auto cell = dirserver::decode_attribute_cell(site, cells.cell().value);
      cells.next();
      if (!cell) continue;  // which is a finding of the names' check
      if (!cell->regular()) {
        if (!holders->empty()) suspect(file);
        continue;
      }
      batch_.push_back({std::move(*cell), std::move(*holders)});
      if (batch_.size() == kAtOnce) SLICE_CO_RETURN_IF_ERROR(co_await look_at_batch());
    }
  }

  // Objects of files below `next` have no attribute cell.
  Task<Status> pass_objects(std::optional<FileId> next) {
    for (ObjectCursor& cursor : cursors_) {
      while (true) {
        auto at = co_await cursor.at();
        if (!at) co_return fail(std::move(at).error());
        if (!*at || (next && **at >= *next)) break;
        ++report_.totals.objects;
        suspect(**at);
        cursor.next();
      }
    }
    co_return Status{};
  }

  Task<Result<Holders>> holders_at(FileId file) {
    Holders holders;
    for (ObjectCursor& cursor : cursors_) {
      auto at = co_await cursor.at();
      if (!at) co_return fail(std::move(at).error());
      if (*at != file) continue;
      ++report_.totals.objects;
      holders.push_back(&cursor.source());
      cursor.next();
    }
    co_return holders;
  }

  void suspect(FileId file) {
    if (cases_.size() >= most_suspects_ && !cases_.contains(file)) {
      ++report_.skipped;
    } else {
      cases_.try_emplace(file);
    }
  }

  Task<Status> look_at_batch() {
    std::vector<File> batch = std::exchange(batch_, {});
    std::vector<Task<Result<std::vector<Finding>>>> tasks;
    tasks.reserve(batch.size());
    for (const File& file : batch) tasks.push_back(look(file));
    auto found = co_await all(std::move(tasks));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!found[i]) co_return fail(std::move(found[i]).error());
      if (!found[i]->empty()) suspect(batch[i].cell.self.cell.fileid);
    }
    co_return Status{};
  }

  Task<Status> look_again() {
    report_.suspects += cases_.size();
    for (auto at = cases_.begin(); at != cases_.end();) {
      auto found = co_await examine(at->first);
      if (!found) co_return fail(std::move(found).error());
      std::string mark;
      for (const Finding& finding : *found)
        mark += fmt::format("{} {}\n", kind_name(finding.kind), finding.what);
      Case& each = at->second;
      each.stood = mark == each.mark ? each.stood + 1 : 1;
      each.mark = std::move(mark);
      const bool stands = !seams_.cells.live() || each.stood >= options_.stands;
      if (found->empty() || stands) {
        for (Finding& finding : *found) report_.add(std::move(finding));
        at = cases_.erase(at);
      } else {
        ++at;
      }
    }
    co_return Status{};
  }

  // One file as it is now.
  Task<Result<std::vector<Finding>>> examine(FileId file) {
    Holders holders;
    for (const auto& server : seams_.servers) {
      auto listed = co_await server->list({before(file), 1});
      if (!listed) co_return fail(std::move(listed).error());
      if (!listed->objects.empty() && listed->objects.front() == name_of(file))
        holders.push_back(server.get());
    }
    const SiteId site = home_of(file);
    if (site.value >= seams_.cells.sites()) co_return co_await nameless(file, holders);
    std::vector<std::string> keys{dirserver::attribute_key(site, file), dirserver::reclaim_key(site, file)};
    auto values = co_await seams_.cells.get(site, std::move(keys));
    if (!values) co_return fail(std::move(values).error());
    const wire::ScanValue &stored = values->at(0), &reclaim = values->at(1);
    // What cannot be read is a finding of the names' check. Bytes that are to be freed will be.
    if (stored.state == State::kAbsent && reclaim.state == State::kAbsent) {
      co_return co_await nameless(file, holders);
    }
    if (stored.state != State::kPresent) co_return std::vector<Finding>();
    auto cell = dirserver::decode_attribute_cell(site, stored.value);
    if (!cell) co_return std::vector<Finding>();
    if (!cell->regular()) co_return co_await nameless(file, holders);
    const File whole{std::move(*cell), std::move(holders)};
    co_return co_await look(whole);
  }

  Task<Result<std::vector<Finding>>> nameless(FileId file, const Holders& holders) {
    std::vector<Finding> found;
    if (under_way(file).removal) co_return found;
    for (ObjectSource* holder : holders) {
      auto stat = co_await holder->stat(name_of(file));
      if (!stat) co_return fail(std::move(stat).error());
      if (stat->status == nfs3::Status::kNoEnt) continue;  // by now
      found.push_back({.kind = Kind::kNameless,
                       .site = home_of(file),
                       .file = file,
                       .name = {},
                       .what = fmt::format("{} has bytes of it, and no directory server knows it",
                                           holder->server().name)});
    }
    co_return found;
  }

  Task<Result<std::vector<Finding>>> look(const File& file) {
    std::vector<Finding> found;
    bool small = false, storage = false;  // has bytes
    for (ObjectSource* holder : file.holders) {
      const bool is_storage = holder->server().role == wire::Role::kStorage;
      if (!is_storage && !may_have_small(*holder, file.cell)) {
        found.push_back(stray(file.cell, *holder, "bytes below the threshold"));
        continue;
      }
      auto stat = co_await holder->stat(name_of(file.cell.self.cell.fileid));
      if (!stat) co_return fail(std::move(stat).error());
      if (stat->status == nfs3::Status::kNoEnt) continue;
      if (stat->status != nfs3::Status::kOk) {
        found.push_back(finding(Kind::kUnreadable, file.cell,
                                fmt::format("{} cannot tell what it has of it: {}", holder->server().name,
                                            nfs3::status_name(stat->status))));
        (is_storage ? storage : small) = true;
        continue;
      }
      report_.totals.object_bytes += stat->allocated;
      if (!is_storage) {
        small = small || stat->allocated > 0;
        continue;
      }
      storage = storage || !stat->extents.empty();
      auto stripe = co_await foreign_stripe(file.cell, *holder, *stat);
      if (!stripe) co_return fail(std::move(stripe).error());
      if (*stripe) {
        found.push_back(stray(file.cell, *holder, fmt::format("bytes of stripe {}", **stripe)));
      }
    }
    if (auto lost = find_lost(file.cell, small, storage)) found.push_back(std::move(*lost));
    co_return found;
  }

  bool may_have_small(const ObjectSource& holder, const AttributeCell& cell) const {
    const SiteId site = seams_.tables->small_file_site(cell.self.cell.fileid);
    const std::uint32_t server = holder.server().server;
    return seams_.tables->owns(server, wire::Role::kSmallFile, site) ||
           moves_by(wire::Role::kSmallFile, site.value, server);
  }

  // The site is on its way to or from this server.
  bool moves_by(wire::Role site_class, std::uint32_t site, std::uint32_t server) const {
    if (seams_.moves == nullptr) return false;
    return std::any_of(seams_.moves->begin(), seams_.moves->end(), [&](const wire::SiteMove& each) {
      return each.site_class == site_class && (each.from == server || each.to == server) && each.has(site);
    });
  }

  UnderWay under_way(FileId file) const { return seams_.under_way ? seams_.under_way(file) : UnderWay(); }

  // The stripe is on its way to or from this server.
  bool moves_by(const UnderWay& under_way, const routing::FileHandle& handle, std::uint64_t stripe,
                std::uint32_t server) const {
    const auto has = [&](SiteId site) {
      return routing::has(seams_.tables->copies_of(site, routing::copies_of(handle)), server);
    };
    return std::any_of(under_way.moves.begin(), under_way.moves.end(), [&](const UnderWay::Move& each) {
      return each.stripe == stripe && (has(each.from) || has(each.to));
    });
  }

  // The first stripe that the node has bytes of and no site; nothing where there is none.
  Task<Result<std::optional<std::uint64_t>>> foreign_stripe(const AttributeCell& cell,
                                                            const ObjectSource& node,
                                                            const wire::ObjectStatResult& stat) {
    const routing::FileHandle handle = dirserver::handle_of(cell.self);
    const bool mapped = routing::has_layout(handle);
    const UnderWay operations = mapped ? under_way(handle.fileid) : UnderWay();
    wire::FileLayout layout;
    std::optional<std::uint64_t> piece;
    for (const wire::ObjectExtent& extent : stat.extents) {
      if (extent.length == 0) continue;
      const std::uint64_t last = (extent.offset + extent.length - 1) >> handle.stripe_shift;
      for (std::uint64_t stripe = extent.offset >> handle.stripe_shift; stripe <= last; ++stripe) {
        if (mapped && piece != wire::piece_of(stripe)) {
          auto got = co_await seams_.map_piece(handle, stripe);
          if (!got && got.error().code == Errc::kNotFound) {
            ++report_.unmapped;
            co_return std::nullopt;
          }
          if (!got) co_return fail(std::move(got).error());
          layout.piece = std::move(*got);
          piece = wire::piece_of(stripe);
        }
        auto copies = routing::copies_of_stripe(*seams_.tables, layout, handle, stripe).all;
        if (routing::has(copies, node.server().server)) continue;
        const SiteId site = routing::site_of_stripe(*seams_.tables, layout, handle, stripe);
        if (mapped ? moves_by(operations, handle, stripe, node.server().server)
                   : moves_by(wire::Role::kStorage, site.value, node.server().server))
          continue;
        co_return stripe;
      }
    }
    co_return std::nullopt;
  }

  // Bytes that servers told the directory server of, and that none of the class has. Not of files that were
  // cut: of those what was told is a guess.
  std::optional<Finding> find_lost(const AttributeCell& cell, bool small, bool storage) const {
    if (cell.truncating || cell.guessed) return std::nullopt;
    std::uint64_t told_small = 0, told_storage = 0;
    for (const dirserver::StoredPart& part : cell.stored.value_or(std::vector<dirserver::StoredPart>())) {
      const wire::ServerEntry* server = seams_.tables->server(part.server);
      // One that was removed told of bytes that others have by now.
      if (server == nullptr || server->role == wire::Role::kRemoved) continue;
      (server->role == wire::Role::kStorage ? told_storage : told_small) += part.bytes;
    }
    if (!cell.stored && cell.striped && cell.size > seams_.config.volume.threshold) told_storage = 1;
    if (told_storage > 0 && !storage) {
      return finding(
          Kind::kLostBytes, cell,
          fmt::format("its size is {}, with bytes on storage nodes, and no storage node has any", cell.size));
    }
    if (told_small > 0 && !small) {
      return finding(
          Kind::kLostBytes, cell,
          fmt::format("its size is {}, with bytes at a small-file server, and that has none", cell.size));
    }
    return std::nullopt;
  }

  static Finding finding(Kind kind, const AttributeCell& cell, std::string what) {
    return {.kind = kind,
            .site = cell.self.cell.site,
            .file = cell.self.cell.fileid,
            .name = {},
            .what = std::move(what)};
  }
  static Finding stray(const AttributeCell& cell, const ObjectSource& holder, std::string_view what) {
    return finding(
        Kind::kStray, cell,
        fmt::format("{} has {}, which by the tables are another server's", holder.server().name, what));
  }

  ObjectName name_of(FileId file) const {
    return {.volume = seams_.config.volume.id, .fileid = file, .kind = wire::ObjectKind::kFile};
  }
  ObjectName before(FileId file) const {
    return {.volume = seams_.config.volume.id,
            .fileid = FileId{file.value - 1},
            .kind = wire::ObjectKind::kStore};
  }

  const DataSeams& seams_;
  const dirserver::fsck::Options& options_;
  dirserver::fsck::Report& report_;
  const std::uint64_t most_suspects_;
  std::vector<ObjectCursor> cursors_;
  std::vector<File> batch_;
  std::map<FileId, Case> cases_;
};

}  // namespace

Task<Status> check_data(const DataSeams& seams, const dirserver::fsck::Options& options,
                        dirserver::fsck::Report& report) {
  DataCheck check(seams, options, report);
  co_return co_await check.run();
}

}  // namespace slice::fsck
