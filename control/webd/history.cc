#include "control/webd/history.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace slice::webd {
namespace {

// The page shows no more digits, and a point an hour ago is sent as often as one of now.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double unit = std::pow(10, std::floor(std::log10(std::fabs(value))) - 2);
  return std::round(value / unit) * unit;
}

std::map<std::string, Rates> rates_of(const std::map<std::string, Figures>& before,
                                      const std::map<std::string, Figures>& after, Duration time) {
  std::map<std::string, Rates> rates;
  for (const auto& [name, figures] : after) {
    const auto found = before.find(name);
    if (found == before.end()) continue;
    if (const auto each = rates_between(found->second, figures, time)) rates[name] = *each;
  }
  return rates;
}

void add(Rates& all, const Rates& each) {
  const double before = all.reads + all.writes + all.names, more = each.reads + each.writes + each.names;
  if (before + more > 0) all.latency = (all.latency * before + each.latency * more) / (before + more);
  all.reads += each.reads;
  all.writes += each.writes;
  all.names += each.names;
  all.failures += each.failures;
  all.by_xdp += each.by_xdp;
}

}  // namespace

void History::add(Reading reading) {
  if (last_.at != MonoTime{}) {
    const Duration time = reading.at - last_.at;
    now_ = rates_of(last_.servers, reading.servers, time);
    Point point{.at = reading.wall.ns / 1'000'000'000, .all = {}, .by_user = 0, .calls = {}};
    for (const auto& [name, rates] : now_) {
      webd::add(point.all, rates);
      point.calls[name] = rates.reads + rates.writes + rates.names;
    }
    for (const auto& [name, rates] : rates_of(last_.proxies, reading.proxies, time)) {
      point.all.by_xdp += rates.by_xdp;
      point.by_user += rates.reads + rates.writes + rates.names;
      now_[name] = rates;
    }
    hour_.push_back(std::move(point));
    if (hour_.size() > points_) hour_.pop_front();
  }
  last_ = std::move(reading);
}

std::string History::json() const {
  auto points = nlohmann::json::array();
  for (const Point& point : hour_) {
    auto servers = nlohmann::json::object();
    for (const auto& [name, calls] : point.calls) servers[name] = rounded(calls);
    points.push_back({{"at", point.at},
                      {"reads", rounded(point.all.reads)},
                      {"writes", rounded(point.all.writes)},
                      {"names", rounded(point.all.names)},
                      {"failures", rounded(point.all.failures)},
                      {"latency", rounded(point.all.latency)},
                      {"by_xdp", rounded(point.all.by_xdp)},
                      {"by_user", rounded(point.by_user)},
                      {"servers", std::move(servers)}});
  }
  return nlohmann::json{{"points", std::move(points)}}.dump();
}

}  // namespace slice::webd
