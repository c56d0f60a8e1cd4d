#include "dirserver/across/objects.h"

namespace slice::dirserver {
namespace {

Status carry_out(const CellStep& step, ReclaimQueue& reclaimer, Transaction& transaction,
                 std::vector<ReclaimRecord>& freed) {
  const CellRef& ref = step.cell.self.cell;
  auto cell = transaction.load(ref);
  if (!cell) return fail(std::move(cell.error()));
  if ((*cell == nullptr) != (step.how == CellStep::How::kCreate)) {
    return fail(Errc::kCorrupt, "a change was prepared for file {:#x}, which is not as it was",
                ref.fileid.value);
  }
  switch (step.how) {
    case CellStep::How::kChange:
      **cell = step.cell;
      transaction.change(**cell);
      break;
    case CellStep::How::kErase:
      erase_object(reclaimer, transaction, **cell, freed);
      break;
    case CellStep::How::kCreate:
      transaction.create(step.cell);
      break;
  }
  return {};
}

Status carry_out(const NameStep& step, SiteId site, nfs3::Time now, Transaction& transaction) {
  NamePlace place{site, step.directory, step.position, step.name};
  auto entry = transaction.find(place);
  if (!entry) return fail(std::move(entry.error()));
  if ((*entry == nullptr) != (step.how == NameStep::How::kLink)) {
    return fail(Errc::kCorrupt, "a change was prepared for a name in directory {:#x} that is not as it was",
                step.directory.fileid.value);
  }
  switch (step.how) {
    case NameStep::How::kLink:
      return transaction.link(place, step.target, now);
    case NameStep::How::kUnlink:
      return transaction.unlink(place, now);
    case NameStep::How::kRetarget:
      return transaction.retarget(place, step.target, now);
  }
  return fail(Errc::kInvalid, "no such step");
}

}  // namespace

void erase_object(ReclaimQueue& reclaimer, Transaction& transaction, AttributeCell& cell,
                  std::vector<ReclaimRecord>& freed) {
  transaction.erase(cell);
  if (!cell.regular()) return;
  // A truncation under way keeps its record: its call is still to be answered, also after a crash.
  if (auto record = reclaimer.add(transaction, cell)) freed.push_back(std::move(*record));
}

Status carry_out(const SiteSteps& what, nfs3::Time now, ReclaimQueue& reclaimer, Transaction& transaction,
                 std::vector<ReclaimRecord>& freed) {
  for (const Step& step : what.steps) {
    const auto* cell = std::get_if<CellStep>(&step);
    Status done = cell != nullptr ? carry_out(*cell, reclaimer, transaction, freed)
                                  : carry_out(std::get<NameStep>(step), what.site, now, transaction);
    if (!done) return done;
  }
  return {};
}

}  // namespace slice::dirserver
