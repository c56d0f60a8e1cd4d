#include "storage/durable_file.h"

#include <utility>

#include "common/crc32c.h"

namespace slice::storage {

Buffer with_checksum(Buffer contents) {
  const std::uint32_t crc = crc32c(contents.view());
  store_be(contents.extend(kChecksumBytes), crc);
  return contents;
}

Result<Buffer> without_checksum(Buffer stored, std::string_view name) {
  if (stored.size() < kChecksumBytes) return fail(Errc::kCorrupt, "{}: cut short", name);
  const std::size_t size = stored.size() - kChecksumBytes;
  const auto crc = load_be<std::uint32_t>(stored.data() + size);
  stored.resize(size);
  if (crc32c(stored.view()) != crc) return fail(Errc::kCorrupt, "{}: its checksum does not fit", name);
  return stored;
}

Task<Status> replace_file(Disk& disk, std::string name, Buffer contents) {
  std::string beside = name + ".new";
  contents = with_checksum(std::move(contents));
  {
    auto file = co_await disk.open(beside, Disk::Mode::kCreate);
    if (!file) co_return fail(file.error(), beside);
    SLICE_CO_RETURN_IF_ERROR(co_await (*file)->truncate(0));
    SLICE_CO_RETURN_IF_ERROR(co_await (*file)->write(0, contents.view()));
    SLICE_CO_RETURN_IF_ERROR(co_await (*file)->sync());
  }
  SLICE_CO_RETURN_IF_ERROR(co_await disk.rename(beside, name));
  const std::size_t slash = name.rfind('/');
  co_return co_await disk.sync_folder(slash == std::string::npos ? "" : name.substr(0, slash));
}

Task<Result<Buffer>> read_file(Disk& disk, std::string name, std::size_t limit) {
  auto file = co_await disk.open(name, Disk::Mode::kMustExist);
  if (!file) co_return fail(std::move(file).error());
  std::uint64_t size = (*file)->size();
  if (size > limit)
    co_return fail(Errc::kTooLarge, "{}: {} bytes; at most {} are expected", name, size, limit);
  Buffer contents(size);
  auto got = co_await (*file)->read(0, contents.span());
  if (!got) co_return fail(got.error(), name);
  if (*got != size) co_return fail(Errc::kCorrupt, "{}: cut short", name);
  co_return without_checksum(std::move(contents), name);
}

}  // namespace slice::storage
