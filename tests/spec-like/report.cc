#include "tests/spec-like/report.h"

#include <algorithm>
#include <cmath>

namespace slice::load {
namespace {

double ms(double ns) {
  return ns / 1e6;
}
double ms(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

std::string latency_columns(const Histogram& latency) {
  return fmt::format("{:9.3f} {:9.3f} {:9.3f} {:9.3f} {:9.3f} {:9.3f}", ms(latency.mean()),
                     ms(latency.quantile(0.5)), ms(latency.quantile(0.9)), ms(latency.quantile(0.99)),
                     ms(latency.quantile(0.999)), ms(latency.max()));
}

constexpr std::string_view kLatencyHead = "     mean       p50       p90       p99     p99.9       max";

std::string operations_of(const Point& point) {
  std::string out;
  for (std::uint32_t i = 0; i < nfs3::kProcedureCount; ++i) {
    const Tally::Operation& operation = point.tally.operations[i];
    if (operation.latency.count() == 0) continue;
    out += fmt::format("  {:12} {:10.1f} {}\n", nfs3::procedure_name(i),
                       static_cast<double>(operation.completed) / point.seconds,
                       latency_columns(operation.latency));
  }
  return out;
}

// What is not ordinary, in words.
std::string remarks_of(const Point& point) {
  const Tally& tally = point.tally;
  std::string out;
  const auto remark = [&](std::uint64_t count, std::string_view what) {
    if (count > 0) out += fmt::format("  {} {}\n", count, what);
  };
  remark(tally.violations, "VIOLATIONS");
  remark(tally.failed, "operations FAILED: no answer");
  remark(tally.not_sent, "operations were due and not begun: too many were under way");
  remark(tally.resent, "calls were sent again");
  remark(tally.told_to_wait, "calls were answered JUKEBOX");
  remark(tally.replayed, "resent calls were carried out twice");
  remark(tally.rewritten, "files were written again: the write verifier had changed");
  remark(tally.contended, "operations waited for a file that no other operation used");
  return out;
}

const Point* point_at(const Report& report, double offered) {
  for (const Point& each : report.points) {
    if (std::abs(each.offered - offered) <= offered * 1e-6) return &each;
  }
  return nullptr;
}

const Point* best(const Report& report) {
  auto found = std::max_element(report.points.begin(), report.points.end(),
                                [](const Point& a, const Point& b) { return a.achieved() < b.achieved(); });
  return found == report.points.end() ? nullptr : &*found;
}

std::string ratio(double a, double b) {
  return a > 0 ? fmt::format("{:8.2f}", b / a) : std::string("       -");
}

}  // namespace

std::uint64_t Report::violations() const {
  std::uint64_t sum = 0;
  for (const Point& each : points) sum += each.tally.violations;
  return sum;
}

std::uint64_t Report::failed() const {
  std::uint64_t sum = 0;
  for (const Point& each : points) sum += each.tally.failed;
  return sum;
}

std::string to_text(const Report& report) {
  std::string out =
      fmt::format("{}: {} over {}, mix {}, {} clients in {} processes, seed {}\n", report.system,
                  report.server, report.transport, report.mix, report.clients, report.processes, report.seed);
  out += fmt::format("{:>10} {:>10} {:>8} {:>8} {}  (latencies in ms)\n", "offered/s", "achieved/s",
                     "MB/s read", "written", kLatencyHead);
  for (const Point& point : report.points) {
    out += fmt::format("{:10.1f} {:10.1f} {:9.1f} {:8.1f} {}\n", point.offered, point.achieved(),
                       static_cast<double>(point.tally.bytes_read) / point.seconds / 1e6,
                       static_cast<double>(point.tally.bytes_written) / point.seconds / 1e6,
                       latency_columns(point.tally.latency()));
  }
  for (const Point& point : report.points) {
    out += fmt::format(
        "\nat {:.1f} operations/s offered, {} files, generator {:.1f} us of processor an operation:\n",
        point.offered, point.files,
        1e6 * point.tally.processor_seconds / std::max(1.0, static_cast<double>(point.tally.completed())));
    out += fmt::format("  {:12} {:>10} {}\n", "operation", "per second", kLatencyHead);
    out += operations_of(point) + remarks_of(point);
  }
  return out;
}

std::string compare(const Report& a, const Report& b) {
  std::string out = fmt::format("A: {} ({}, {}, mix {})\nB: {} ({}, {}, mix {})\n", a.system, a.server,
                                a.transport, a.mix, b.system, b.server, b.transport, b.mix);
  if (a.mix != b.mix) out += "The mixes differ: figures below do not compare like with like.\n";
  out += fmt::format("{:>10} {:>11} {:>11} {:>8} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8}\n", "offered/s",
                     "A achieved", "B achieved", "B/A", "A mean ms", "B mean ms", "B/A", "A p99 ms",
                     "B p99 ms", "B/A");
  for (const Point& one : a.points) {
    const Point* other = point_at(b, one.offered);
    if (other == nullptr) continue;
    const Histogram la = one.tally.latency(), lb = other->tally.latency();
    const double a99 = ms(la.quantile(0.99)), b99 = ms(lb.quantile(0.99));
    out +=
        fmt::format("{:10.1f} {:11.1f} {:11.1f} {} {:10.3f} {:10.3f} {} {:10.3f} {:10.3f} {}\n", one.offered,
                    one.achieved(), other->achieved(), ratio(one.achieved(), other->achieved()),
                    ms(la.mean()), ms(lb.mean()), ratio(la.mean(), lb.mean()), a99, b99, ratio(a99, b99));
  }
  const Point *best_a = best(a), *best_b = best(b);
  if (best_a != nullptr && best_b != nullptr) {
    out += fmt::format("most achieved: A {:.1f}, B {:.1f} operations/s, B/A {}\n", best_a->achieved(),
                       best_b->achieved(), ratio(best_a->achieved(), best_b->achieved()));
  }
  if (a.violations() + b.violations() > 0) {
    out += fmt::format("violations: A {}, B {}: their figures are not to be trusted\n", a.violations(),
                       b.violations());
  }
  return out;
}

}  // namespace slice::load
