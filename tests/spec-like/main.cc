// slice-load: a load generator for NFSv3 servers (docs/load.md).
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>

#include "cli/command_line.h"
#include "common/bytes.h"
#include "common/log.h"
#include "rpc/bound_socket.h"
#include "tests/spec-like/controller.h"
#include "tests/spec-like/plot.h"

namespace slice::load {
namespace {

constexpr int kGood = 0, kFound = 1, kBadUsage = 2;
constexpr std::uint16_t kNfsPort = 2049, kWorkerPort = 20490;

struct Arguments {
  std::string server, path = "/", transport = "tcp", mix = "specsfs", label, listen, print_mix;
  std::uint16_t mount_port = 0;
  std::uint32_t uid = ::getuid(), gid = ::getgid();
  double patience = 60, warm_up = 5, interval = 30, rate = 0;
  std::vector<double> rates;
  std::uint64_t clients = 1, processes = 1, seed = 1;
  std::uint32_t outstanding = 256;
  std::string bytes_per_op, tls;
  std::vector<std::string> hosts, compare, from;
  std::string json, plot;
  bool keep = false;
};

int say(const Error& error, int code = kBadUsage) {
  std::fprintf(stderr, "slice-load: %s\n", error.message.c_str());
  return code;
}

// A name is looked up.
Result<rpc::Endpoint> find(const std::string& text, std::uint16_t otherwise) {
  const auto named = rpc::parse_host_and_port(text);
  if (!named) return fail(named.error());
  const std::string& host = named->host;
  rpc::Endpoint endpoint{.address = {}, .port = named->port.value_or(otherwise)};
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0 || found == nullptr) {
    return fail(Errc::kInvalid, "'{}' has no IP address", host);
  }
  endpoint.address = rpc::endpoint_of(found->ai_addr, found->ai_addrlen).address;
  ::freeaddrinfo(found);
  return endpoint;
}

// The mix's text, with --bytes-per-op put into it: workers get the text alone.
Result<std::string> mix_of(const Arguments& arguments) {
  auto text = mix_text(arguments.mix);
  if (!text || arguments.bytes_per_op.empty()) return text;
  std::string out;
  bool replaced = false;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const std::string line = text->substr(at, end - at);
    const bool is_key = line.starts_with("bytes_per_op");
    out += (is_key ? fmt::format("bytes_per_op = \"{}\"", arguments.bytes_per_op) : line) + "\n";
    replaced |= is_key;
    at = end + 1;
  }
  if (!replaced) return fail(Errc::kInvalid, "mix {} has no bytes_per_op to be changed", arguments.mix);
  return out;
}

Result<Plan> plan_of(const Arguments& arguments) {
  auto server = find(arguments.server, kNfsPort);
  if (!server) return fail(std::move(server).error());
  auto text = mix_of(arguments);
  if (!text) return fail(std::move(text).error());
  auto mix = parse_mix(*text, arguments.mix);
  if (!mix) return fail(std::move(mix).error());
  Plan plan;
  plan.job = {.target = {.server = *server,
                         .path = arguments.path,
                         .mount_port = arguments.mount_port,
                         .transport = arguments.transport == "udp" ? Transport::kUdp : Transport::kTcp,
                         .uid = arguments.uid,
                         .gid = arguments.gid,
                         .patience = arguments.patience,
                         .tls_authority = arguments.tls},
              .mix = *text,
              .clients = arguments.clients,
              .seed = arguments.seed,
              .outstanding = arguments.outstanding,
              .folder = fmt::format("slice-load-{}-{}", ::getpid(),
                                    precise_now().time_since_epoch().count() / 1'000'000)};
  plan.mix_name = mix->name;
  plan.system = arguments.label.empty() ? arguments.server : arguments.label;
  plan.rates = arguments.rates.empty() ? std::vector<double>{arguments.rate} : arguments.rates;
  plan.warm_up = arguments.warm_up;
  plan.interval = arguments.interval;
  plan.processes = arguments.processes;
  plan.keep = arguments.keep;
  for (const std::string& each : arguments.hosts) {
    auto host = find(each, kWorkerPort);
    if (!host) return fail(std::move(host).error());
    plan.hosts.push_back(*host);
  }
  return plan;
}

int run(const Arguments& arguments) {
  auto plan = plan_of(arguments);
  if (!plan) return say(plan.error());
  auto report = carry_out(
      *plan, [](const std::string& line) { std::fprintf(stderr, "slice-load: %s\n", line.c_str()); });
  if (!report) return say(report.error(), kFound);
  std::fputs(to_text(*report).c_str(), stdout);
  for (const Point& point : report->points) {
    for (const std::string& text : point.tally.texts) std::fprintf(stderr, "slice-load: %s\n", text.c_str());
  }
  if (!arguments.json.empty()) {
    std::ofstream out(arguments.json, std::ios::binary);
    out << to_json_text(*report) << std::flush;
    if (!out) return say({Errc::kIo, "cannot write " + arguments.json});
  }
  if (!arguments.plot.empty()) {
    if (auto drawn = plot({*report}, arguments.plot); !drawn) return say(drawn.error());
  }
  return report->violations() + report->failed() == 0 ? kGood : kFound;
}

Result<std::vector<Report>> read_all(const std::vector<std::string>& paths) {
  std::vector<Report> reports;
  for (const std::string& path : paths) {
    auto report = read_report(path);
    if (!report) return fail(std::move(report).error());
    reports.push_back(std::move(*report));
  }
  return reports;
}

int plot_files(const Arguments& arguments) {
  auto reports = read_all(arguments.from);
  if (!reports) return say(reports.error());
  auto drawn = plot(*reports, arguments.plot);
  return drawn ? kGood : say(drawn.error());
}

int compare_files(const Arguments& arguments) {
  auto reports = read_all(arguments.compare);
  if (!reports) return say(reports.error());
  std::fputs(compare(reports->at(0), reports->at(1)).c_str(), stdout);
  return kGood;
}

int work(const Arguments& arguments) {
  auto at = rpc::parse_endpoint(arguments.listen);
  if (!at) return say(at.error());
  auto served = serve_connections(*at);
  return say(served.error());
}

void add_options(const cli::Command& app, Arguments& arguments) {
  app.add_option("--server", arguments.server, "ADDRESS[:PORT] of the NFSv3 server; port 2049 by default");
  app.add_option("--export", arguments.path, "the path to mount").capture_default();
  app.add_option("--mount-port", arguments.mount_port, "of the MOUNT program; else PORTMAP is asked");
  app.add_option("--transport", arguments.transport, "of every call")
      .one_of({"tcp", "udp"})
      .capture_default();
  app.add_option(
      "--tls", arguments.tls,
      "NFS calls go through TLS (RFC 9289); PEM file of who signed the server's certificate, on the "
      "workers' hosts");
  app.add_option("--uid", arguments.uid, "user of every call; else one's own");
  app.add_option("--gid", arguments.gid, "group of every call; else one's own");
  app.add_option("--mix", arguments.mix,
                 "specsfs, untar, postmark, metadata, sequential, random, mixed, getattr, or a file that "
                 "ends with .toml")
      .capture_default();
  app.add_option("--print-mix", arguments.print_mix, "show a built-in mix, as a file to begin with");
  app.add_option("--bytes-per-op", arguments.bytes_per_op,
                 "instead of the mix's: size of the file set for each operation a second (10MiB in specsfs)");
  const auto rate =
      app.add_option("--rate", arguments.rate, "offered load, operations a second, of all clients together")
          .in_range(0.1, 1e8);
  app.add_option("--rates", arguments.rates, "several offered loads, one after the other: 100,200,400")
      .delimiter(',')
      .in_range(0.1, 1e8)
      .excludes(rate);
  app.add_option("--clients", arguments.clients, "of each process: a connection and a folder each")
      .in_range(1, 10000)
      .capture_default();
  app.add_option("--processes", arguments.processes, "here, or on each of --hosts")
      .in_range(1, 1000)
      .capture_default();
  app.add_option("--hosts", arguments.hosts,
                 "ADDRESS[:PORT] of workers, by comma: they make the load, not this process")
      .delimiter(',');
  app.add_option("--outstanding", arguments.outstanding, "transactions that one client has under way at most")
      .in_range(1, 100000)
      .capture_default();
  app.add_option("--warm-up", arguments.warm_up, "seconds before each interval")
      .in_range(0.0, 1e6)
      .capture_default();
  app.add_option("--interval", arguments.interval, "seconds that are measured")
      .in_range(0.1, 1e6)
      .capture_default();
  app.add_option("--patience", arguments.patience, "seconds to wait for an answer")
      .in_range(0.1, 1e6)
      .capture_default();
  app.add_option("--seed", arguments.seed, "of all that is drawn").capture_default();
  app.add_option("--label", arguments.label, "what the report calls the server");
  app.add_option("--json", arguments.json, "write the report there");
  const auto plot =
      app.add_option("--plot", arguments.plot, "draw throughput and latency there (.svg or .png)");
  app.add_option("--from", arguments.from, "with --plot: draw these reports, and run nothing")
      .delimiter(',')
      .needs(plot);
  app.add_option("--compare", arguments.compare, "two reports: show them beside each other, and run nothing")
      .expected(2);
  app.add_flag("--keep", arguments.keep, "leave the files on the server");
}

int main(int argc, char** argv) {
  Arguments arguments;
  cli::Program app("slice-load: puts a load on an NFSv3 server, measures it, and checks every reply");
  add_options(app, arguments);
  app.footer(
      "Exit codes: 0 all replies were right; 1 violations, or no answer (listed on standard error); 2 wrong "
      "usage.");
  const auto worker =
      app.add_subcommand("worker", "make load for controllers that connect (slice-load --hosts)");
  worker
      .add_option("--listen", arguments.listen,
                  "ADDRESS:PORT; whoever reaches it can have it send NFS calls anywhere")
      .required();
  if (const auto code = app.parse(argc, argv)) return *code;
  std::signal(SIGPIPE, SIG_IGN);
  configure_log("slice-load", LogLevel::kInfo);
  if (worker.parsed()) return work(arguments);
  if (!arguments.print_mix.empty()) {
    const std::string text(built_in_mix(arguments.print_mix));
    if (text.empty()) return say({Errc::kNotFound, "no built-in mix is called " + arguments.print_mix});
    std::fputs(text.c_str(), stdout);
    return kGood;
  }
  if (!arguments.compare.empty()) return compare_files(arguments);
  if (!arguments.from.empty()) return plot_files(arguments);
  if (arguments.server.empty() || (arguments.rate == 0 && arguments.rates.empty())) {
    return say({Errc::kInvalid, "--server and --rate (or --rates) are needed; --help shows all"});
  }
  return run(arguments);
}

}  // namespace
}  // namespace slice::load

int main(int argc, char** argv) {
  return slice::load::main(argc, argv);
}
