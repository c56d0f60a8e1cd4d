#include "dirserver/fsck/source.h"

#include <iterator>
#include <utility>

namespace slice::dirserver::fsck {

namespace {

// Small enough that a server which serves clients meanwhile is not held up for long.
constexpr std::uint32_t kScanBytes = 256 << 10;

}  // namespace

Task<Result<std::vector<wire::ScanValue>>> CellSource::get(SiteId site, std::vector<std::string> keys) {
  auto result = co_await scan({.site = site, .keys = std::move(keys), .begin = {}, .end = {}});
  if (!result) co_return fail(std::move(result).error());
  co_return std::move(result->values);
}

Cursor::Cursor(CellSource& source, SiteId site, KeyRange range)
    : source_(source), site_(site), left_(std::move(range)) {}

Task<Result<bool>> Cursor::fill() {
  while (!ready()) {
    if (left_.begin.empty()) co_return false;
    auto page = co_await source_.scan(
        {.site = site_, .keys = {}, .begin = left_.begin, .end = left_.end, .limit = kScanBytes});
    if (!page) co_return fail(std::move(page).error());
    page_ = std::move(*page);
    at_ = 0;
    gaps_.insert(gaps_.end(), std::make_move_iterator(page_.gaps.begin()),
                 std::make_move_iterator(page_.gaps.end()));
    left_.begin = page_.next;
  }
  co_return true;
}

}  // namespace slice::dirserver::fsck
