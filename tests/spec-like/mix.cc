#include "tests/spec-like/mix.h"

#include <fmt/ranges.h>

#include <array>
#include <numeric>

#include "common/config_section.h"
#include "common/whole_file.h"
#include "tests/spec-like/content.h"

namespace slice::load {
namespace {

using config_internal::line_of;
using config_internal::Refusals;
using config_internal::Section;

constexpr std::array<std::string_view, kSteps> kStepNames{
    "lookup", "missing", "access", "getattr", "setattr",  "read",    "write",       "append",
    "commit", "create",  "remove", "rename",  "readlink", "readdir", "readdirplus", "fsstat"};
constexpr std::size_t kMaxTransactions = 100, kMaxStepsOfOne = 50, kMaxSizes = 100;
constexpr std::size_t kMostOfMix = 1 << 20;  // bytes
constexpr double kLargestWeight = 1e6;
constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 40;

void read_weights(Refusals& refusals, const toml::table& table,
                  const std::function<void(std::string_view, double)>& take) {
  for (const auto& [key, value] : table) {
    auto weight = value.value<double>();
    if (!weight || !(*weight > 0 && *weight <= kLargestWeight)) {
      refusals.add(line_of(value), "the weight of {} is not a number above 0, up to {}", key.str(),
                   kLargestWeight);
      return;
    }
    take(key.str(), *weight);
  }
}

void read_operations(Refusals& refusals, const toml::table& table, Mix& mix) {
  read_weights(refusals, table, [&](std::string_view name, double weight) {
    auto step = step_of(name);
    if (!step) {
      refusals.add(line_of(table), "{}", step.error().message);
    } else {
      mix.transactions.push_back({weight, {*step}});
    }
  });
}

void read_transaction(Refusals& refusals, const toml::table& table, Mix& mix) {
  Section section(refusals, table, "[[transaction]]", line_of(table));
  Transaction transaction;
  transaction.weight = static_cast<double>(section.number("weight", 1, 1, 1'000'000));
  for (const std::string& name : section.texts("steps")) {
    auto step = step_of(name);
    if (!step) {
      section.refuse("steps", "{}", step.error().message);
    } else {
      transaction.steps.push_back(*step);
    }
  }
  if (transaction.steps.empty() || transaction.steps.size() > kMaxStepsOfOne) {
    section.refuse("steps", "1 to {} steps are expected", kMaxStepsOfOne);
  }
  section.finish();
  mix.transactions.push_back(std::move(transaction));
}

void read_files(Refusals& refusals, const toml::table& table, Mix& mix) {
  Section section(refusals, table, "[files]", line_of(table));
  if (const toml::table* sizes = section.table("sizes")) {
    read_weights(refusals, *sizes, [&](std::string_view name, double weight) {
      auto bytes = parse_size(name);
      if (!bytes || *bytes == 0 || *bytes > kLargestFile) {
        refusals.add(line_of(*sizes), "'{}' is not a size of a file", name);
      } else {
        mix.sizes.push_back({*bytes, weight});
      }
    });
  }
  mix.bytes_per_op = section.size("bytes_per_op", 0);
  mix.files = section.number("least", 100, 0, 100'000'000);
  mix.working_set = section.fraction("working_set").value_or(1);
  mix.files_per_directory = section.number32("per_directory", 30, 1, 1'000'000);
  mix.links_per_directory = section.number32("links_per_directory", 4, 0, 1000);
  section.finish();
}

void read_io(Refusals& refusals, const toml::table& table, Mix& mix) {
  Section section(refusals, table, "[io]", line_of(table));
  const std::uint64_t transfer = section.size("transfer", kBlock);
  if (transfer == 0 || transfer % kBlock != 0 || transfer > (1 << 20)) {
    section.refuse("transfer", "a multiple of 8KiB up to 1MiB is expected");
  }
  mix.transfer = static_cast<std::uint32_t>(transfer);
  mix.missing = section.fraction("missing").value_or(0);
  mix.append = section.fraction("append").value_or(0);
  constexpr std::array<std::string_view, 2> kOrders{"random", "sequential"};
  mix.sequential = section.choice("order", kOrders, 0) == 1;
  constexpr std::array<std::string_view, 2> kStabilities{"unstable", "file-sync"};
  mix.file_sync = section.choice("writes", kStabilities, 0) == 1;
  section.finish();
}

// Steps that need one kind of object cannot be mixed in one transaction with steps that need another.
Status check_transaction(const Transaction& transaction) {
  bool file = false, other = false, created = false, removed = false;
  for (Step step : transaction.steps) {
    const bool alone = step == Step::kReadlink || step == Step::kReaddir || step == Step::kReaddirplus ||
                       step == Step::kFsstat;
    if (step == Step::kCreate && (created || file))
      return fail(Errc::kInvalid, "create comes once, and first of what needs a file");
    if (removed) return fail(Errc::kInvalid, "nothing comes after remove");
    created |= step == Step::kCreate;
    removed |= step == Step::kRemove;
    file |= !alone && step != Step::kMissing && step != Step::kAccess;
    other |= alone;
  }
  if (other && transaction.steps.size() > 1) {
    return fail(Errc::kInvalid, "readlink, readdir, readdirplus and fsstat are transactions of their own");
  }
  return {};
}

Status check(const Mix& mix, const std::string& path) {
  if (mix.transactions.empty())
    return fail(Errc::kInvalid, "{}: neither [operations] nor [[transaction]]", path);
  if (mix.transactions.size() > kMaxTransactions)
    return fail(Errc::kInvalid, "{}: over {} transactions", path, kMaxTransactions);
  if (mix.sizes.empty() || mix.sizes.size() > kMaxSizes) {
    return fail(Errc::kInvalid, "{}: [files] sizes: 1 to {} sizes are expected", path, kMaxSizes);
  }
  for (const Transaction& each : mix.transactions) {
    if (auto good = check_transaction(each); !good) return fail(good.error(), path);
  }
  return {};
}

}  // namespace

std::string_view step_name(Step step) {
  return kStepNames[static_cast<std::size_t>(step)];
}

Result<Step> step_of(std::string_view name) {
  for (std::size_t i = 0; i < kSteps; ++i) {
    if (kStepNames[i] == name) return static_cast<Step>(i);
  }
  return fail(Errc::kInvalid, "'{}' is no operation: {}", name, fmt::join(kStepNames, ", "));
}

double Mix::steps_per_transaction() const {
  double steps = 0, weights = 0;
  for (const Transaction& each : transactions) {
    steps += each.weight * static_cast<double>(each.steps.size());
    weights += each.weight;
  }
  return steps / weights;
}

double Mix::mean_file_size() const {
  double bytes = 0, weights = 0;
  for (const SizeShare& each : sizes) {
    bytes += each.weight * static_cast<double>(each.bytes);
    weights += each.weight;
  }
  return bytes / weights;
}

Result<Mix> parse_mix(std::string_view text, const std::string& path) {
  Refusals refusals(path);
  config_internal::check_lines(refusals, text);
  if (refusals.error()) return fail(*refusals.error());
  toml::parse_result parsed = toml::parse(text, std::string_view(path));
  if (!parsed) {
    return fail(Errc::kInvalid, "{}:{}: {}", path, parsed.error().source().begin.line,
                parsed.error().description());
  }
  const toml::table& root = parsed.table();
  Mix mix;
  Section top(refusals, root, "the mix", 1);
  mix.name = top.text("name");
  if (const toml::table* table = top.table("operations")) read_operations(refusals, *table, mix);
  if (top.has("transaction")) {
    if (const toml::array* entries = top.tables("transaction")) {
      for (const toml::node& entry : *entries) read_transaction(refusals, *entry.as_table(), mix);
    }
  }
  if (const toml::table* table = top.table("files")) read_files(refusals, *table, mix);
  if (const toml::table* table = top.table("io")) read_io(refusals, *table, mix);
  top.finish();
  if (refusals.error()) return fail(*refusals.error());
  SLICE_RETURN_IF_ERROR(check(mix, path));
  return mix;
}

Result<std::string> mix_text(const std::string& name) {
  if (!name.ends_with(".toml")) {
    std::string_view text = built_in_mix(name);
    if (text.empty()) {
      return fail(Errc::kNotFound, "no mix is called '{}': one of {}, or a file that ends with .toml", name,
                  fmt::join(built_in_mixes(), ", "));
    }
    return std::string(text);
  }
  auto file = read_whole_file(name, kMostOfMix);
  if (!file) return fail(file.error(), name);
  return std::move(file->bytes);
}

Chooser::Chooser(const std::vector<double>& weights) : up_to_(weights.size()) {
  std::partial_sum(weights.begin(), weights.end(), up_to_.begin());
}

std::size_t Chooser::draw(sim::Random& random) const {
  const double at = static_cast<double>(random.next() >> 11) * 0x1p-53 * up_to_.back();
  const auto found = std::upper_bound(up_to_.begin(), up_to_.end(), at);
  return std::min(static_cast<std::size_t>(found - up_to_.begin()), up_to_.size() - 1);
}

Chooser transactions_of(const Mix& mix) {
  std::vector<double> weights;
  for (const Transaction& each : mix.transactions) weights.push_back(each.weight);
  return Chooser(weights);
}

Chooser sizes_of(const Mix& mix) {
  std::vector<double> weights;
  for (const SizeShare& each : mix.sizes) weights.push_back(each.weight);
  return Chooser(weights);
}

}  // namespace slice::load
