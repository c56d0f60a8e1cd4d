#include "dirserver/fsck/under_way.h"

#include "dirserver/cells/steps.h"
#include "dirserver/fsck/keys.h"

namespace slice::dirserver::fsck {
namespace {

void add(const CellStep& step, std::set<FileId>& files) {
  files.insert(step.cell.self.cell.fileid);
}
void add(const NameStep& step, std::set<FileId>& files) {
  files.insert(step.directory.fileid);
  files.insert(step.target.cell.fileid);
}

}  // namespace

Task<Status> UnderWay::read(CellSource& source) {
  files_.clear();
  for (std::uint32_t site = 0; site < source.sites(); ++site) {
    Cursor records(source, SiteId{site}, range_of(SiteId{site}, CellKind::kPrepared));
    for (;; records.next()) {
      if (!records.ready()) {
        auto more = co_await records.fill();
        if (!more) co_return fail(std::move(more).error());
        if (!*more) break;
      }
      SLICE_CO_RETURN_IF_ERROR(co_await take(source, records.cell()));
    }
  }
  co_return Status{};
}

// What is prepared and not decided has changed nothing anywhere.
Task<Status> UnderWay::take(CellSource& source, wire::ScanCell cell) {
  auto prepared = decode_prepared(site_of(cell.key), cell.value);
  if (!prepared || prepared->id.site.value >= source.sites()) co_return Status{};
  auto intention = co_await source.get(prepared->id.site, {intention_key(prepared->id)});
  if (!intention) co_return fail(std::move(intention).error());
  if (intention->front().state == wire::ScanValue::State::kAbsent) co_return Status{};
  for (const Step& step : prepared->what.steps) {
    std::visit([&](const auto& each) { add(each, files_); }, step);
  }
  co_return Status{};
}

}  // namespace slice::dirserver::fsck
