#include "dirserver/cells/steps.h"

#include "dirserver/cells/cells_codec.h"

namespace slice::dirserver {
namespace {

void write(CellWriter& out, const CellStep& step) {
  out.number(static_cast<std::uint8_t>(step.how));
  out.text(encode(step.cell));
}

void write(CellWriter& out, const NameStep& step) {
  out.number(static_cast<std::uint8_t>(step.how));
  out.cell(step.directory);
  out.number(step.position.value);
  out.text(step.name);
  out.target(step.target);
}

Result<Step> read_step(SiteId site, CellReader& in) {
  auto kind = in.number<std::uint8_t>();
  const auto how = static_cast<CellStep::How>(kind);
  if (how >= CellStep::How::kChange && how <= CellStep::How::kCreate) {
    auto cell = decode_attribute_cell(site, in.text());
    if (!cell) return fail(std::move(cell.error()));
    return CellStep{how, std::move(*cell)};
  }
  NameStep step;
  step.how = static_cast<NameStep::How>(kind);
  step.directory = in.cell();
  step.position.value = in.number<std::uint64_t>();
  step.name = in.text();
  step.target = in.target();
  bool known = kind >= 1 && kind <= 3;
  if (!known || step.name.empty() || step.name.size() > nfs3::kMaxName) in.fail();
  return step;
}

}  // namespace

std::string encode(const PreparedRecord& record) {
  CellWriter out;
  out.transaction(record.id);
  out.number(static_cast<std::uint8_t>(record.rename_lock));
  out.number(static_cast<std::uint16_t>(record.what.steps.size()));
  for (const Step& step : record.what.steps) {
    std::visit([&](const auto& each) { write(out, each); }, step);
  }
  return out.take();
}

Result<PreparedRecord> decode_prepared(SiteId site, std::string_view value) {
  CellReader in(value);
  PreparedRecord record;
  record.id = in.transaction();
  record.rename_lock = in.number<std::uint8_t>() != 0;
  record.what.site = site;
  for (unsigned left = in.number<std::uint16_t>(); left > 0 && in.ok(); --left) {
    auto step = read_step(site, in);
    if (!step) return fail(std::move(step.error()));
    record.what.steps.push_back(std::move(*step));
  }
  return in.finish(std::move(record), "prepared change");
}

}  // namespace slice::dirserver
