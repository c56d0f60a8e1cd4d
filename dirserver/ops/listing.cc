#include "dirserver/ops/listing.h"

#include <algorithm>

namespace slice::dirserver::ops {
namespace {

using nfs3::Status;

class Listing {
 public:
  Listing(Volume& volume, const NfsRequest& request, const AttributeCell& directory, const ListingArgs& args,
          nfs3::EntryListWriter& entries)
      : volume_(volume),
        directory_(directory),
        args_(args),
        entries_(entries),
        // Names may be read without search permission, what they point to may not.
        attributes_(args.plus && may(request.who, directory, service::kMayExecute)) {}

  // Adds entries until the reply is full or the directory ends. True: it ended.
  Answer<bool> run() {
    if (args_.cookie < kCookieOfDot && !add(".", kCookieOfDot, directory_.self.cell)) return false;
    if (args_.cookie < kCookieOfDotDot && !add("..", kCookieOfDotDot, directory_.parent)) return false;
    Cookie after{};
    if (args_.cookie > kCookieOfDotDot) after = decode_cookie(args_.cookie);
    for (SiteId site : volume_.placement.name_sites(directory_.self.cell, after.site)) {
      auto ended = run_site(site, site == after.site ? after : Cookie{.site = site});
      if (!ended || !*ended) return ended;
    }
    return true;
  }
  storage::LogPosition shown() const { return shown_; }

 private:
  Answer<bool> run_site(SiteId site, const Cookie& after) {
    FileId file = directory_.self.cell.fileid;
    KeyRange range = range_of_directory(site, file);
    if (after.position.value > 0) range.begin = name_key(site, file, after.position);
    auto at = volume_.cells.store().iterate(range.begin, range.end);
    for (; at->valid(); at->next()) {
      auto bucket = decode_name_bucket(at->value());
      if (!bucket) return refuse(bucket.error());
      Cookie cookie{site, Position{last_number(at->key())}, 0};
      for (const NameEntry& entry : bucket->entries) {
        cookie.slot = entry.slot;
        if (cookie <= after) continue;
        if (!add(entry.name, encode_cookie(cookie), entry.target.cell)) return false;
      }
    }
    if (auto status = at->status(); !status) return refuse(status.error());
    return true;
  }

  bool add(std::string_view name, std::uint64_t cookie, const CellRef& ref) {
    nfs3::DirectoryEntry entry{.fileid = ref.fileid, .name = name, .cookie = cookie};
    routing::HandleBytes handle;
    if (attributes_) {
      auto cell = volume_.cells.attributes(ref);
      // One that cannot be read is listed without attributes: the client's own look-up shows the error.
      if (cell && *cell != nullptr) {
        entry.attributes = volume_.attributes(**cell);
        handle = volume_.mint((*cell)->self);
        entry.handle = nfs3::HandleView(handle);
      }
    }
    if (!entries_.add(entry)) return false;
    if (attributes_) shown_ = std::max(shown_, volume_.cells.pending(ref.fileid));
    return true;
  }

  Volume& volume_;
  const AttributeCell& directory_;
  const ListingArgs& args_;
  nfs3::EntryListWriter& entries_;
  bool attributes_;
  storage::LogPosition shown_;
};

Status check(const Volume& volume, const NfsRequest& request, const AttributeCell& directory,
             const ListingArgs& args) {
  if (!directory.directory()) return Status::kNotDir;
  if (!may(request.who, directory, service::kMayRead)) return Status::kAcces;
  if (args.cookie != 0 && args.verifier != kCookieVerifier) return Status::kBadCookie;
  if (args.cookie > kCookieOfDotDot &&
      !volume.placement.may_hold_names(directory.self.cell, decode_cookie(args.cookie).site)) {
    return Status::kBadCookie;
  }
  return Status::kOk;
}

}  // namespace

Task<NfsAnswer> list(Volume& volume, NfsRequest& request, ListingArgs args, rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto cell = read_object(volume, request.handle, shown);
  if (!cell) co_return co_await refuse_shown(volume, request, out, shown, cell.error());
  AttributeCell directory = **cell;  // a copy: reading entries moves what the cache holds
  request.attributes = volume.attributes(directory);
  Status status = check(volume, request, directory, args);
  if (status != Status::kOk) co_return co_await refuse_shown(volume, request, out, shown, status);

  args.limits.maxcount = std::min(args.limits.maxcount, kMaxListing);
  std::size_t start = out.size();
  nfs3::EntryListWriter entries(out, args.plus, request.attributes, kCookieVerifier, args.limits);
  Listing listing(volume, request, directory, args, entries);
  auto ended = listing.run();
  if (!ended) {
    status = ended.error();
  } else if (!*ended && entries.entries() == 0) {
    status = Status::kTooSmall;
  }
  shown = std::max(shown, listing.shown());
  if (status != Status::kOk) {
    out.rewind(start);
    co_return co_await refuse_shown(volume, request, out, shown, status);
  }
  entries.finish(*ended);
  co_return co_await answer_shown(volume, request, shown, Status::kOk);
}

}  // namespace slice::dirserver::ops
