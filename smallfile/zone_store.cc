#include "smallfile/zone_store.h"

namespace slice::smallfile {

std::string DiskZoneStore::path(SiteId zone) {
  return fmt::format("zones/{:08x}.zone", zone.value);
}

Task<Result<DiskZoneStore::Shared>> DiskZoneStore::open(SiteId zone) {
  auto found = files_.find(zone);
  if (found != files_.end()) co_return found->second;
  auto lock = co_await opening_.lock();
  found = files_.find(zone);
  if (found != files_.end()) co_return found->second;
  auto file = co_await disk_.open(path(zone), storage::Disk::Mode::kCreate);
  if (!file) co_return fail(file.error(), path(zone));
  Shared shared = std::move(*file);
  files_[zone] = shared;
  co_return shared;
}

Task<Status> DiskZoneStore::read(SiteId zone, std::uint64_t offset, ByteSpan into) {
  auto file = co_await open(zone);
  if (!file) co_return fail(std::move(file).error());
  auto got = co_await (*file)->read(offset, into);
  if (!got) co_return fail(std::move(got).error());
  if (*got != into.size()) {
    co_return fail(Errc::kCorrupt, "{}: ends at {} where {} bytes were stored at {}", path(zone),
                   offset + *got, into.size(), offset);
  }
  co_return Status{};
}

Task<Status> DiskZoneStore::write(SiteId zone, std::uint64_t offset, ByteView bytes) {
  auto file = co_await open(zone);
  if (!file) co_return fail(std::move(file).error());
  co_return co_await (*file)->write(offset, bytes);
}

Task<Status> DiskZoneStore::sync(SiteId zone) {
  auto file = co_await open(zone);
  if (!file) co_return fail(std::move(file).error());
  Status status = co_await (*file)->sync();
  // A file whose fsync failed never syncs again; what is written anew goes through a new one.
  if (!status) files_.erase(zone);
  co_return status;
}

Task<Status> DiskZoneStore::shrink(SiteId zone, std::uint64_t size) {
  auto file = co_await open(zone);
  if (!file) co_return fail(std::move(file).error());
  if ((*file)->size() <= size) co_return Status{};
  co_return co_await (*file)->truncate(size);
}

}  // namespace slice::smallfile
