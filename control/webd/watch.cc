#include "control/webd/watch.h"

#include <algorithm>
#include <utility>

#include "control/slicectl/health.h"
#include "control/slicectl/render.h"
#include "control/slicectl/render_parts.h"
#include "control/slicectl/render_status.h"
#include "control/webd/pages.h"
#include "service/membership.h"

namespace slice::webd {
namespace {

using slicectl::dump;
using slicectl::Json;

constexpr std::string_view kJsonType = "application/json", kWhere = "/where";

std::shared_ptr<const std::string> text_of(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  const char lower = static_cast<char>(c | 0x20);
  if (lower >= 'a' && lower <= 'f') return static_cast<unsigned>(lower - 'a' + 10);
  return std::nullopt;
}

// RFC 3986, section 2.1. Nothing where a '%' has no two digits behind it.
std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const auto high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (!high || !low) return std::nullopt;
    out.push_back(static_cast<char>(*high << 4 | *low));
    i += 2;
  }
  return out;
}

}  // namespace

Watch::Watch(const slicectl::Seams& seams)
    : loop_(seams.loop),
      channel_(seams.channel),
      config_(std::make_shared<const EnsembleConfig>(seams.config)),
      history_(kHour) {}

void Watch::start() {
  spawn(look_for_ever());
}

Task<void> Watch::look_for_ever() {
  while (true) {
    co_await look();
    make_now();
    co_await loop_.sleep(kPeriod);
  }
}

Task<void> Watch::look() {
  const Config config = config_;
  const slicectl::Heard heard = co_await slicectl::hear(seams(config));
  learn(heard);
  status_ =
      slicectl::render_status(*config_, heard, slicectl::judge(*config_, heard), slicectl::Format::kJson);
  asked_ms_ = heard.now.ns / 1'000'000;
  History::Reading reading{.at = loop_.now(), .wall = heard.now, .servers = {}, .proxies = {}};
  for (const slicectl::HeardServer& server : heard.servers) {
    if (server.silence) continue;
    const bool is_proxy = server.entry.role == wire::Role::kProxy;
    (is_proxy ? reading.proxies : reading.servers)[server.entry.name] = figures_of(server.metrics);
  }
  history_.add(std::move(reading));
}

// What the manager alone knows. Where it does not answer, what was known is shown still.
void Watch::learn(const slicectl::Heard& heard) {
  if (heard.tables && (tables_ == nullptr || tables_->generation() != heard.tables->generation)) {
    if (auto tables = routing::RoutingTables::make(*config_, *heard.tables)) {
      tables_ = *tables;
      config_ = std::make_shared<const EnsembleConfig>(
          with_members(*config_, service::members_of(heard.tables->servers)));
      shown_tables_ = slicectl::render_tables(*tables_, false, slicectl::Format::kJson);
    }
  }
  if (heard.moves && tables_ != nullptr)
    moves_ =
        slicectl::render_moves(*tables_, *heard.moves, slicectl::spreads_of(heard), slicectl::Format::kJson);
}

void Watch::make_now() {
  Json rates = Json::object();
  for (const auto& [name, each] : history_.now()) {
    rates[name] = {{"reads", each.reads},     {"writes", each.writes},
                   {"names", each.names},     {"failures", each.failures},
                   {"latency", each.latency}, {"by_xdp", each.by_xdp},
                   {"cpu", each.cpu}};
  }
  now_ = text_of(fmt::format(R"({{"asked_ms":{},"status":{},"tables":{},"moves":{},"rates":{}}})", asked_ms_,
                             status_, shown_tables_, moves_, dump(rates)));
  hour_ = nullptr;
}

http::Page Watch::page(std::string_view path) {
  if (path == "/now.json") return {http::Status::kOk, kJsonType, now_};
  if (path == "/history.json") {
    if (hour_ == nullptr) hour_ = text_of(history_.json());
    return {http::Status::kOk, kJsonType, hour_};
  }
  if (path.starts_with(kWhere) && path.substr(kWhere.size()).starts_with('/')) {
    const auto name = decoded(path.substr(kWhere.size()));
    if (name) return {http::Status::kOk, kJsonType, where(*name)};
    return {http::Status::kBadRequest, "text/plain; charset=utf-8",
            text_of("a '%' with two digits is expected\n")};
  }
  for (const Asset& each : kAssets) {
    if (each.path != path) continue;
    return {http::Status::kOk, each.content_type, text_of(std::string(each.text))};
  }
  return {http::Status::kNotFound, "text/plain; charset=utf-8", text_of("there is no such page\n")};
}

Watch::Place* Watch::find(const std::string& path) {
  const auto found =
      std::find_if(places_.begin(), places_.end(), [&](const Place& each) { return each.path == path; });
  return found == places_.end() ? nullptr : &*found;
}

// Who is asked about much forgets what was asked first. What it is still asking about stays: so no client has
// it ask more at once.
bool Watch::make_room() {
  if (places_.size() < kPaths) return true;
  const auto found =
      std::find_if(places_.begin(), places_.end(), [](const Place& each) { return each.answer != nullptr; });
  if (found == places_.end()) return false;
  places_.erase(found);
  return true;
}

Watch::Text Watch::where(const std::string& path) {
  if (tables_ == nullptr) return text_of(R"({"error":"the manager has not answered yet"})");
  Place* known = find(path);
  if (known == nullptr) {
    if (!make_room()) return text_of(R"({"error":"it is asked about too many files at once"})");
    known = &places_.emplace_back(Place{.path = path, .at = {}, .answer = nullptr});
    spawn(ask_where(path));
  } else if (known->answer != nullptr && loop_.now() - known->at >= kGood) {
    known->answer = nullptr;
    spawn(ask_where(path));
  }
  return known->answer != nullptr ? known->answer : text_of(R"({"pending":true})");
}

Task<void> Watch::ask_where(std::string path) {
  const Config config = config_;
  auto where = co_await slicectl::ask_where(seams(config), tables_, path);
  Place* asked = find(path);
  if (asked == nullptr) co_return;
  Json answer;
  if (where) {
    answer = slicectl::where_json(*config, *where);
    // With its bytes anybody could open the file.
    answer.erase("handle");
  } else {
    answer["error"] = where.error().message;
  }
  asked->answer = text_of(dump(answer));
  asked->at = loop_.now();
}

}  // namespace slice::webd
