#include "tests/spec-like/plot.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>

namespace slice::load {
namespace {

// Text within gnuplot's double quotes, where backquotes would run a command.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ' && c != '`') out += c;
  }
  return out + '"';
}

std::string title_of(const Report& report) {
  return quoted(fmt::format("{} ({})", report.system, report.transport));
}

std::string data_of(const Report& report, std::size_t number) {
  std::vector<const Point*> points;
  for (const Point& each : report.points) points.push_back(&each);
  std::sort(points.begin(), points.end(),
            [](const Point* a, const Point* b) { return a->offered < b->offered; });
  std::string out = fmt::format("$R{} << EOD\n", number);
  for (const Point* each : points) {
    const Histogram latency = each->tally.latency();
    out += fmt::format("{} {} {} {}\n", each->offered, each->achieved(), latency.mean() / 1e6,
                       static_cast<double>(latency.quantile(0.99)) / 1e6);
  }
  return out + "EOD\n";
}

}  // namespace

std::string plot_script(const std::vector<Report>& reports, const std::string& path) {
  const bool png = path.ends_with(".png");
  std::string out = png ? "set terminal png size 1200,520\n"
                        : "set terminal svg size 1200,520 noenhanced background \"white\"\n";
  out += fmt::format("set output {}\n", quoted(path));
  for (std::size_t i = 0; i < reports.size(); ++i) out += data_of(reports[i], i);
  out += fmt::format("set multiplot layout 1,2 title {}\nset grid\nset key left top noenhanced\n",
                     quoted(reports.empty() ? "" : "mix " + reports[0].mix));
  out +=
      "set xlabel \"offered load, operations/s\"\nset ylabel \"throughput, operations/s\"\nset xrange "
      "[0:*]\nset yrange [0:*]\nplot x with lines dt 2 lc rgb \"gray\" title \"all of it\"";
  for (std::size_t i = 0; i < reports.size(); ++i) {
    out += fmt::format(", \\\n  $R{} using 1:2 with linespoints lw 2 lc {} title {}", i, i + 1,
                       title_of(reports[i]));
  }
  out +=
      "\nset xlabel \"throughput, operations/s\"\nset ylabel \"latency, ms\"\nset logscale y\nset yrange "
      "[*:*]\nplot ";
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const std::string title = fmt::format("{} ({})", reports[i].system, reports[i].transport);
    out += fmt::format(
        "{}$R{} using 2:3 with linespoints lw 2 lc {} title {}, \\\n  $R{} using 2:4 with linespoints dt 3 "
        "lc {} title {}",
        i == 0 ? "" : ", \\\n  ", i, i + 1, quoted(title + ", mean"), i, i + 1, quoted(title + ", 99 %"));
  }
  return out + "\nunset multiplot\n";
}

Status plot(const std::vector<Report>& reports, const std::string& path) {
  if (!path.ends_with(".svg") && !path.ends_with(".png")) {
    return fail(Errc::kInvalid, "{}: a picture ends with .svg or .png", path);
  }
  if (reports.empty()) return fail(Errc::kInvalid, "no report to plot");
  // Through its standard input: no argument comes from a report.
  std::FILE* gnuplot = ::popen("gnuplot -", "w");
  if (gnuplot == nullptr) return fail(Errc::kIo, "cannot start gnuplot");
  const std::string script = plot_script(reports, path);
  const bool written = std::fwrite(script.data(), 1, script.size(), gnuplot) == script.size();
  const int code = ::pclose(gnuplot);
  if (!written || code != 0)
    return fail(Errc::kIo, "gnuplot did not draw {} (is gnuplot-nox installed?)", path);
  return {};
}

}  // namespace slice::load
