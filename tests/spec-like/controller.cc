#include "tests/spec-like/controller.h"

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "rpc/bound_socket.h"

namespace slice::load {
namespace {

using Json = nlohmann::json;

// A worker as its controller sees it.
struct Remote {
  Lines lines;
  std::string name;
  pid_t child = -1;  // of a process here
};

class Workers {
 public:
  Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  // Hangs up, so that they clean up and end, and waits for those that are here.
  ~Workers() {
    std::vector<pid_t> children;
    for (const Remote& each : remotes_) children.push_back(each.child);
    remotes_.clear();
    for (pid_t child : children) {
      if (child > 0) ::waitpid(child, nullptr, 0);
    }
  }

  std::size_t size() const { return remotes_.size(); }

  Status start_here(std::uint64_t number) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return fail(Errc::kIo, "no socket pair: {}", std::strerror(errno));
    }
    const pid_t child = ::fork();
    if (child < 0) return fail(Errc::kIo, "cannot start a process: {}", std::strerror(errno));
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // while it makes its load it does not look at the controller
      ::close(ends[0]);
      remotes_.clear();  // the other workers' ends, else they would not see the controller hang up
      std::signal(SIGINT, SIG_IGN);  // the terminal's goes to the controller, whose end the worker notices
      serve_controller(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    remotes_.push_back({Lines(ends[0]), fmt::format("process {}", number), child});
    return {};
  }

  Status connect(rpc::Endpoint host) {
    const int fd = rpc::socket_for(host.address, SOCK_STREAM);
    const rpc::SocketAddress address(host);
    Lines lines(fd);
    if (::connect(fd, address.get(), address.length()) != 0) {
      return fail(Errc::kUnavailable, "no worker at {}: {}", to_string(host), std::strerror(errno));
    }
    remotes_.push_back({std::move(lines), to_string(host), -1});
    return {};
  }

  // The same request to all (`request(number)`), then their answers; the first error, after all have
  // answered.
  template <class Make>
  Result<std::vector<Json>> ask(Make request) {
    for (std::size_t i = 0; i < remotes_.size(); ++i) {
      if (auto sent = remotes_[i].lines.write(request(i)); !sent) return fail(sent.error(), remotes_[i].name);
    }
    std::vector<Json> answers;
    std::optional<Error> first;
    for (Remote& each : remotes_) {
      auto answer = take(each);
      if (answer) {
        answers.push_back(std::move(*answer));
      } else if (!first) {
        first = answer.error();
      }
    }
    if (first) return fail(std::move(*first));
    return answers;
  }

 private:
  static Result<Json> take(Remote& remote) {
    auto line = remote.lines.read();
    if (!line) return fail(line.error(), remote.name);
    if (!*line) return fail(Errc::kIo, "{} ended", remote.name);
    Json json = Json::parse(**line, nullptr, false);
    if (!json.is_object() || !json.contains("ok"))
      return fail(Errc::kInvalid, "{} talks nonsense", remote.name);
    if (json["ok"] == true) return json;
    std::string texts;
    if (json.contains("texts") && json["texts"].is_array()) {
      for (const Json& text : json["texts"]) texts += "\n  " + text.dump();
    }
    return fail(Errc::kIo, "{}: {}{}", remote.name, json.value("error", "failed"), texts);
  }

  std::vector<Remote> remotes_;
};

Status start(Workers& workers, const Plan& plan) {
  if (plan.hosts.empty()) {
    for (std::uint64_t i = 0; i < plan.processes; ++i) SLICE_RETURN_IF_ERROR(workers.start_here(i));
    return {};
  }
  for (rpc::Endpoint host : plan.hosts) {
    for (std::uint64_t i = 0; i < plan.processes; ++i) SLICE_RETURN_IF_ERROR(workers.connect(host));
  }
  return {};
}

Result<Point> run_point(Workers& workers, const Plan& plan, double rate,
                        const std::function<void(const std::string&)>& progress) {
  const double each = rate / static_cast<double>(workers.size());
  auto grown = workers.ask([&](std::size_t) { return Json{{"do", "grow"}, {"rate", each}}.dump(); });
  if (!grown) return fail(std::move(grown).error());
  Point point{.offered = rate, .seconds = plan.interval, .files = 0, .tally = {}};
  for (const Json& json : *grown) point.files += json.value("files", std::uint64_t{0});
  progress(fmt::format("{} files; {:.1f} operations/s for {} + {} s", point.files, rate, plan.warm_up,
                       plan.interval));
  auto answers = workers.ask([&](std::size_t) {
    return Json{{"do", "run"}, {"rate", each}, {"warm_up", plan.warm_up}, {"interval", plan.interval}}.dump();
  });
  if (!answers) return fail(std::move(answers).error());
  for (const Json& json : *answers) {
    if (!json.contains("tally")) return fail(Errc::kInvalid, "a worker answers without a tally");
    auto tally = tally_from(json["tally"]);
    if (!tally) return fail(std::move(tally).error());
    point.tally.merge(*tally);
  }
  return point;
}

Status run_points(Workers& workers, const Plan& plan, Report& report,
                  const std::function<void(const std::string&)>& progress) {
  for (double rate : plan.rates) {
    auto point = run_point(workers, plan, rate, progress);
    if (!point) return fail(std::move(point).error());
    report.points.push_back(std::move(*point));
  }
  return {};
}

}  // namespace

Result<Report> carry_out(const Plan& plan, const std::function<void(const std::string&)>& progress) {
  Workers workers;
  SLICE_RETURN_IF_ERROR(start(workers, plan));
  Report report{.system = plan.system,
                .server = to_string(plan.job.target.server),
                .mix = plan.mix_name,
                .transport = plan.job.target.transport == Transport::kUdp ? "udp" : "tcp",
                .seed = plan.job.seed,
                .processes = workers.size(),
                .clients = workers.size() * plan.job.clients,
                .warm_up = plan.warm_up,
                .points = {}};
  auto prepared = workers.ask([&](std::size_t number) {
    Job job = plan.job;
    job.folder = fmt::format("{}-{}", job.folder, number);
    job.seed = sim::mix(job.seed + (std::uint64_t{number} << 32));
    return to_line(job);
  });
  if (!prepared) return fail(std::move(prepared).error());
  SLICE_RETURN_IF_ERROR(run_points(workers, plan, report, progress));
  auto cleaned = workers.ask([&](std::size_t) { return Json{{"do", plan.keep ? "keep" : "clean"}}.dump(); });
  if (!cleaned) return fail(std::move(cleaned).error());
  return report;
}

}  // namespace slice::load
