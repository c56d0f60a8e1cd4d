#include <nlohmann/json.hpp>

#include "common/whole_file.h"
#include "tests/spec-like/report.h"

namespace slice::load {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "slice-load 1";
constexpr std::size_t kMostOfReport = 256 << 20;  // bytes

struct Field {
  const char* name;
  std::uint64_t Tally::* place;
};
constexpr Field kFields[] = {{"not_sent", &Tally::not_sent},     {"failed", &Tally::failed},
                             {"violations", &Tally::violations}, {"told_to_wait", &Tally::told_to_wait},
                             {"resent", &Tally::resent},         {"replayed", &Tally::replayed},
                             {"rewritten", &Tally::rewritten},   {"contended", &Tally::contended},
                             {"bytes_read", &Tally::bytes_read}, {"bytes_written", &Tally::bytes_written}};

Json to_json(const Histogram& histogram) {
  const auto sparse = histogram.sparse();
  return {{"count", histogram.count()},
          {"mean", histogram.mean()},
          {"p50", histogram.quantile(0.5)},
          {"p90", histogram.quantile(0.9)},
          {"p99", histogram.quantile(0.99)},
          {"p999", histogram.quantile(0.999)},
          {"max", sparse.max},
          {"sum", sparse.sum},
          {"buckets", sparse.buckets}};
}

Result<Histogram> histogram_from(const Json& json) {
  Histogram::Sparse sparse;
  sparse.max = json.at("max").get<std::uint64_t>();
  sparse.sum = json.at("sum").get<double>();
  sparse.buckets = json.at("buckets").get<decltype(sparse.buckets)>();
  return Histogram::from(sparse);
}

std::size_t procedure_of_name(const std::string& name) {
  for (std::uint32_t i = 0; i < nfs3::kProcedureCount; ++i) {
    if (nfs3::procedure_name(i) == name) return i;
  }
  return nfs3::kProcedureCount;
}

// Throws what nlohmann throws where a value is missing or of another kind.
Result<Tally> read_tally(const Json& json) {
  Tally tally;
  for (const Field& field : kFields) tally.*field.place = json.at(field.name).get<std::uint64_t>();
  tally.processor_seconds = json.at("processor_seconds").get<double>();
  tally.texts = json.at("texts").get<std::vector<std::string>>();
  for (const auto& [name, operation] : json.at("operations").items()) {
    const std::size_t at = procedure_of_name(name);
    if (at == nfs3::kProcedureCount) return fail(Errc::kInvalid, "no operation is called {}", name);
    auto histogram = histogram_from(operation.at("latency_ns"));
    if (!histogram) return fail(std::move(histogram).error());
    tally.operations[at].latency = std::move(*histogram);
    tally.operations[at].completed = operation.at("completed").get<std::uint64_t>();
  }
  return tally;
}

Result<Report> read(const Json& json) {
  if (json.at("format").get<std::string>() != kFormat) return fail(Errc::kInvalid, "is no '{}'", kFormat);
  Report report{.system = json.at("system").get<std::string>(),
                .server = json.at("server").get<std::string>(),
                .mix = json.at("mix").get<std::string>(),
                .transport = json.at("transport").get<std::string>(),
                .seed = json.at("seed").get<std::uint64_t>(),
                .processes = json.at("processes").get<std::uint64_t>(),
                .clients = json.at("clients").get<std::uint64_t>(),
                .warm_up = json.at("warm_up_seconds").get<double>(),
                .points = {}};
  for (const Json& each : json.at("points")) {
    auto tally = read_tally(each);
    if (!tally) return fail(std::move(tally).error());
    report.points.push_back({.offered = each.at("offered_per_second").get<double>(),
                             .seconds = each.at("seconds").get<double>(),
                             .files = each.at("files").get<std::uint64_t>(),
                             .tally = std::move(*tally)});
  }
  return report;
}

}  // namespace

Json to_json(const Tally& tally) {
  Json json;
  for (const Field& field : kFields) json[field.name] = tally.*field.place;
  json["processor_seconds"] = tally.processor_seconds;
  json["texts"] = tally.texts;
  json["operations"] = Json::object();
  for (std::uint32_t i = 0; i < nfs3::kProcedureCount; ++i) {
    const Tally::Operation& operation = tally.operations[i];
    if (operation.completed == 0 && operation.latency.count() == 0) continue;
    json["operations"][std::string(nfs3::procedure_name(i))] = {{"completed", operation.completed},
                                                                {"latency_ns", to_json(operation.latency)}};
  }
  return json;
}

Result<Tally> tally_from(const Json& json) {
  try {
    return read_tally(json);
  } catch (const Json::exception& error) {
    return fail(Errc::kInvalid, "{}", error.what());
  }
}

std::string to_json_text(const Report& report) {
  Json points = Json::array();
  for (const Point& point : report.points) {
    Json json = to_json(point.tally);
    json["offered_per_second"] = point.offered;
    json["achieved_per_second"] = point.achieved();
    json["seconds"] = point.seconds;
    json["files"] = point.files;
    json["latency_ns"] = to_json(point.tally.latency());
    points.push_back(std::move(json));
  }
  const Json json{{"format", kFormat},
                  {"system", report.system},
                  {"server", report.server},
                  {"mix", report.mix},
                  {"transport", report.transport},
                  {"seed", report.seed},
                  {"processes", report.processes},
                  {"clients", report.clients},
                  {"warm_up_seconds", report.warm_up},
                  {"points", std::move(points)}};
  // Names that a server sent need not be UTF-8.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Report> report_from(std::string_view text, const std::string& path) {
  try {
    auto report = read(Json::parse(text));
    if (!report) return fail(report.error(), path);
    return report;
  } catch (const Json::exception& error) {
    return fail(Errc::kInvalid, "{}: no report of slice-load: {}", path, error.what());
  }
}

Result<Report> read_report(const std::string& path) {
  auto file = read_whole_file(path, kMostOfReport);
  if (!file) return fail(file.error(), path);
  return report_from(file->bytes, path);
}

}  // namespace slice::load
