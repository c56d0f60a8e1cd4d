#include "dirserver/ops/listing.h"

#include <algorithm>

namespace slice::dirserver::ops {

using NfsStatus = nfs3::Status;

namespace {

NfsStatus check(const NameSpace& names, const NfsRequest& request, const AttributeCell& directory,
                const ListingArgs& args) {
  if (!directory.directory()) return NfsStatus::kNotDir;
  if (!may(request.who, directory, service::kMayRead)) return NfsStatus::kAcces;
  if (args.cookie != 0 && args.verifier != kCookieVerifier) return NfsStatus::kBadCookie;
  if (args.cookie > kCookieOfDotDot &&
      !names.placement.may_hold_names(directory.self.cell, decode_cookie(args.cookie).site)) {
    return NfsStatus::kBadCookie;
  }
  return NfsStatus::kOk;
}

// "." and "..", where the listing has not passed them: two names that no cell is kept for.
Task<void> add_dots(NameSpace& names, const rpc::Call& call, const ReadDirectory& directory,
                    std::uint64_t after, bool attributes, std::vector<wire::ListedName>& dots,
                    storage::LogPosition& shown) {
  struct Dot {
    std::string_view name;
    std::uint64_t cookie;
    CellRef ref;
  };
  const AttributeCell& cell = directory.cell;
  for (const Dot& dot : {Dot{".", kCookieOfDot, cell.self.cell}, Dot{"..", kCookieOfDotDot, cell.parent}}) {
    if (after >= dot.cookie) continue;
    wire::ListedName listed{.file = dot.ref.fileid,
                            .name = std::string(dot.name),
                            .cookie = dot.cookie,
                            .handle = {},
                            .attributes = {}};
    if (attributes) {
      auto read = co_await names.read_cell(dot.ref, shown);
      if (read && *read && may_go_up(names, call, cell, **read)) {
        listed.attributes = names.attributes(**read);
        listed.handle = as_text(names.mint((*read)->self));
      }
    }
    dots.push_back(std::move(listed));
  }
}

// Adds what fits. True: all of them.
bool write(const std::vector<wire::ListedName>& names, nfs3::EntryListWriter& entries) {
  return std::all_of(names.begin(), names.end(), [&](const wire::ListedName& listed) {
    nfs3::DirectoryEntry entry{.fileid = listed.file,
                               .name = listed.name,
                               .cookie = listed.cookie,
                               .attributes = listed.attributes,
                               .handle = {}};
    if (!listed.handle.empty()) entry.handle = nfs3::HandleView(as_bytes(listed.handle));
    return entries.add(entry);
  });
}

}  // namespace

Task<NfsAnswer> list(NameSpace& names, NfsRequest& request, ListingArgs args, rpc::XdrWriter& out) {
  storage::LogPosition shown;
  auto directory = co_await names.read_directory(request.handle, shown);
  if (!directory) co_return co_await refuse_shown(names, request, out, shown, directory.error());
  if (!directory->leased) request.attributes = names.attributes(directory->cell);
  NfsStatus status = check(names, request, directory->cell, args);
  if (status != NfsStatus::kOk) co_return co_await refuse_shown(names, request, out, shown, status);

  args.limits.maxcount = std::min({args.limits.maxcount, kMaxListing, service::largest_transfer(request)});
  // Names may be read without search permission, what they point to may not.
  bool attributes = args.plus && may(request.who, directory->cell, service::kMayExecute);
  std::vector<wire::ListedName> dots;
  co_await add_dots(names, request.call, *directory, args.cookie, attributes, dots, shown);
  Cookie after{};
  if (args.cookie > kCookieOfDotDot) after = decode_cookie(args.cookie);
  auto page = co_await names.list_everywhere(
      directory->cell.self.cell, after, {.bytes = args.limits.maxcount, .attributes = attributes}, shown);
  if (!page) co_return co_await refuse_shown(names, request, out, shown, page.error());

  std::size_t start = out.size();
  nfs3::EntryListWriter entries(out, args.plus, request.attributes, kCookieVerifier, args.limits);
  bool all = write(dots, entries) && write(page->names, entries);
  bool ended = all && page->end;
  if (!ended && entries.entries() == 0) {
    out.rewind(start);
    co_return co_await refuse_shown(names, request, out, shown, NfsStatus::kTooSmall);
  }
  entries.finish(ended);
  co_return co_await answer_shown(names, request, shown, NfsStatus::kOk);
}

}  // namespace slice::dirserver::ops
