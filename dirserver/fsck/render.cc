#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "dirserver/fsck/finding.h"

namespace slice::dirserver::fsck {
namespace {

using Json = nlohmann::ordered_json;

std::string line(const Finding& finding) {
  std::string text = fmt::format("{:<12}  site {}", kind_name(finding.kind), finding.site.value);
  if (finding.file.value != 0) text += fmt::format("  file {:#x}", finding.file.value);
  if (!finding.name.empty()) text += "  name " + in_quotes(finding.name);
  return text + "  " + finding.what + "\n";
}

std::uint64_t cell_bytes(const Totals& totals) {
  return totals.attribute_bytes + totals.name_bytes + totals.part_bytes + totals.record_bytes;
}
double per_file(std::uint64_t bytes, const Totals& totals) {
  std::uint64_t all = std::max<std::uint64_t>(totals.directories + totals.files, 1);
  return static_cast<double>(bytes) / static_cast<double>(all);
}

std::string totals_text(const Report& report, std::string_view mode) {
  const Totals& totals = report.totals;
  std::string text = fmt::format(
      "{}: {} sites, {} directories, {} files, {} names, {} parts, {} records; {} pass{}, {} cells looked at "
      "again\n",
      mode, totals.sites, totals.directories, totals.files, totals.names, totals.parts, totals.records,
      report.passes, report.passes == 1 ? "" : "es", report.suspects);
  text += fmt::format(
      "bytes: {} of attribute cells, {} of names, {} of parts, {} of records ({:.1f} a file or directory), "
      "{} of "
      "duplicate-request records\n",
      totals.attribute_bytes, totals.name_bytes, totals.part_bytes, totals.record_bytes,
      per_file(cell_bytes(totals), totals), totals.duplicate_bytes);
  if (totals.objects > 0) {
    text += fmt::format("data: {} objects, {} bytes\n", totals.objects, totals.object_bytes);
  }
  if (totals.disk_bytes > 0) {
    text += fmt::format("on disk: {} bytes ({:.1f} a file or directory)\n", totals.disk_bytes,
                        per_file(totals.disk_bytes, totals));
  }
  return text;
}

// What keeps "clean" from being said for sure.
std::vector<std::string> omissions(const Report& report) {
  std::vector<std::string> all;
  if (report.skipped > 0) {
    all.push_back(fmt::format("{} suspicions were not looked at: more --memory would", report.skipped));
  }
  if (!report.cycles_checked) {
    all.emplace_back("cycles of directories were not looked for: more --memory would");
  }
  if (report.busy > 0) {
    all.push_back(fmt::format("{} cells changed whenever they were looked at", report.busy));
  }
  return all;
}

Json list(const std::vector<Finding>& findings) {
  Json all = Json::array();
  for (const Finding& finding : findings) {
    Json one{{"kind", kind_name(finding.kind)}, {"site", finding.site.value}};
    if (finding.file.value != 0) one["file"] = fmt::format("{:#x}", finding.file.value);
    if (!finding.name.empty()) one["name"] = finding.name;
    one["what"] = finding.what;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

std::string in_quotes(std::string_view name) {
  std::string text = "\"";
  for (char c : name) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string render_text(const Report& report, std::string_view mode) {
  std::string text;
  for (const Finding& finding : report.findings()) text += line(finding);
  for (const Finding& finding : report.unfinished()) text += line(finding);
  std::uint64_t shown = report.findings().size();
  if (report.damage() > shown) text += fmt::format("... and {} findings more\n", report.damage() - shown);
  text += totals_text(report, mode);
  for (const std::string& each : omissions(report)) text += each + "\n";
  if (report.unmapped > 0) {
    text += fmt::format(
        "{} objects of files with copies or block maps: where their bytes should be was not checked, which "
        "coordinators know\n",
        report.unmapped);
  }
  if (std::uint64_t unfinished = report.count(Kind::kUnfinished); unfinished > 0) {
    text += fmt::format("{} unfinished operations, which their servers finish or take back\n", unfinished);
  }
  if (report.clean()) return text + (report.complete() ? "clean\n" : "no findings\n");
  text += "findings:";
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    auto count = report.count(static_cast<Kind>(kind));
    if (count > 0 && static_cast<Kind>(kind) != Kind::kUnfinished) {
      text += fmt::format(" {} {}", count, kind_name(static_cast<Kind>(kind)));
    }
  }
  return text + "\n";
}

std::string render_json(const Report& report, std::string_view mode) {
  const Totals& totals = report.totals;
  Json counts = Json::object();
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    auto count = report.count(static_cast<Kind>(kind));
    if (count > 0) counts[std::string(kind_name(static_cast<Kind>(kind)))] = count;
  }
  Json json{{"clean", report.clean() && report.complete()},
            {"complete", report.complete()},
            {"mode", mode},
            {"passes", report.passes},
            {"suspects", report.suspects},
            {"counts", counts},
            {"findings", list(report.findings())},
            {"unfinished", list(report.unfinished())},
            {"omissions", omissions(report)},
            {"totals",
             {{"sites", totals.sites},
              {"directories", totals.directories},
              {"files", totals.files},
              {"names", totals.names},
              {"parts", totals.parts},
              {"records", totals.records},
              {"attribute_bytes", totals.attribute_bytes},
              {"name_bytes", totals.name_bytes},
              {"part_bytes", totals.part_bytes},
              {"record_bytes", totals.record_bytes},
              {"duplicate_bytes", totals.duplicate_bytes},
              {"objects", totals.objects},
              {"object_bytes", totals.object_bytes},
              {"unmapped_objects", report.unmapped},
              {"disk_bytes", totals.disk_bytes},
              {"bytes_per_file", per_file(cell_bytes(totals), totals)},
              {"disk_bytes_per_file", per_file(totals.disk_bytes, totals)}}}};
  // Names may hold bytes that are no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace slice::dirserver::fsck
