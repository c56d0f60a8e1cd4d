// How a worker serves its controller: docs/formats/load-report.md.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/log.h"
#include "rpc/bound_socket.h"
#include "tests/spec-like/report.h"
#include "tests/spec-like/worker.h"

namespace slice::load {
namespace {

using Json = nlohmann::json;

Job job_from(const Json& json) {
  Job job;
  auto server = rpc::parse_endpoint(json.at("server").get<std::string>());
  job.target = {
      .server = server ? *server : rpc::Endpoint{},
      .path = json.at("path").get<std::string>(),
      .mount_port = json.at("mount_port").get<std::uint16_t>(),
      .transport = json.at("transport").get<std::string>() == "udp" ? Transport::kUdp : Transport::kTcp,
      .uid = json.at("uid").get<std::uint32_t>(),
      .gid = json.at("gid").get<std::uint32_t>(),
      .patience = json.at("patience").get<double>(),
      .tls_authority = json.value("tls_authority", "")};
  job.mix = json.at("mix").get<std::string>();
  job.clients = json.at("clients").get<std::uint64_t>();
  job.seed = json.at("seed").get<std::uint64_t>();
  job.outstanding = json.at("outstanding").get<std::uint32_t>();
  job.folder = json.at("folder").get<std::string>();
  return job;
}

constexpr std::uint64_t kMostClients = 10'000;

Status prepare(Worker& worker, const Json& request) {
  const Job job = job_from(request.at("job"));
  if (job.target.server.port == 0) return fail(Errc::kInvalid, "the job names no server");
  if (job.clients == 0 || job.clients > kMostClients)
    return fail(Errc::kInvalid, "1 to {} clients", kMostClients);
  return worker.prepare(job);
}

Json answer_of(const Status& status) {
  if (status) return {{"ok", true}};
  return {{"ok", false}, {"error", status.error().message}};
}

// One controller's worker.
class Service {
 public:
  Json answer_line(const std::string& line) {
    try {
      return answer(Json::parse(line));
    } catch (const Json::exception& error) {
      return {{"ok", false}, {"error", error.what()}};
    }
  }
  // For a controller that hung up before it said what is to become of the files.
  void end() {
    if (!files_are_there_) return;
    if (auto done = worker_.clean(); !done) log_error("worker: {}", done.error().message);
  }

 private:
  // Throws what nlohmann throws where the request lacks something.
  Json answer(const Json& request) {
    const auto what = request.at("do").get<std::string>();
    if (what == "prepare") return prepare_job(request);
    if (what == "grow") return grow(request.at("rate").get<double>());
    if (what == "run") return run(request);
    if (what == "clean") return clean();
    if (what != "keep") return {{"ok", false}, {"error", "no such request: " + what}};
    files_are_there_ = false;
    return {{"ok", true}};
  }

  Json prepare_job(const Json& request) {
    if (files_are_there_) return {{"ok", false}, {"error", "prepared before"}};
    const Json done = answer_of(prepare(worker_, request));
    files_are_there_ = true;
    return done;
  }
  Json grow(double rate) {
    Json out = answer_of(worker_.grow(rate));
    out["files"] = worker_.files();
    out["texts"] = worker_.take_texts();
    return out;
  }
  Json run(const Json& request) {
    auto tally = worker_.run(request.at("rate").get<double>(), request.at("warm_up").get<double>(),
                             request.at("interval").get<double>());
    if (!tally) return {{"ok", false}, {"error", tally.error().message}};
    return {{"ok", true}, {"tally", to_json(*tally)}, {"files", worker_.files()}};
  }
  Json clean() {
    files_are_there_ = false;
    Json out = answer_of(worker_.clean());
    out["texts"] = worker_.take_texts();
    return out;
  }

  Worker worker_;
  bool files_are_there_ = false;
};

}  // namespace

std::string to_line(const Job& job) {
  const Target& target = job.target;
  return Json{{"do", "prepare"},
              {"job",
               {{"server", to_string(target.server)},
                {"path", target.path},
                {"mount_port", target.mount_port},
                {"transport", target.transport == Transport::kUdp ? "udp" : "tcp"},
                {"uid", target.uid},
                {"gid", target.gid},
                {"patience", target.patience},
                {"tls_authority", target.tls_authority},
                {"mix", job.mix},
                {"clients", job.clients},
                {"seed", job.seed},
                {"outstanding", job.outstanding},
                {"folder", job.folder}}}}
      .dump();
}

Lines::~Lines() {
  if (fd_ >= 0) ::close(fd_);
}

Status Lines::write(std::string line) {
  line += '\n';
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t n = ::send(fd_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(Errc::kIo, "the other side hung up: {}", std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
  return {};
}

Result<std::optional<std::string>> Lines::read() {
  while (true) {
    if (const std::size_t end = rest_.find('\n'); end != std::string::npos) {
      std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      return line;
    }
    if (rest_.size() > kLongest) return fail(Errc::kTooLarge, "a line of over {} bytes", kLongest);
    char bytes[65536];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(Errc::kIo, "{}", std::strerror(errno));
    if (n == 0 && rest_.empty()) return std::optional<std::string>();
    if (n == 0) return fail(Errc::kIo, "the other side hung up within a line");
    rest_.append(bytes, static_cast<std::size_t>(n));
  }
}

void serve_controller(int fd) {
  Lines lines(fd);
  Service service;
  while (true) {
    auto line = lines.read();
    if (!line) log_error("worker: {}", line.error().message);
    if (!line || !*line) break;
    const std::string said = service.answer_line(**line).dump(-1, ' ', false, Json::error_handler_t::replace);
    if (!lines.write(said)) break;
  }
  service.end();
}

Status serve_connections(rpc::Endpoint at) {
  const int listener = rpc::socket_for(at.address, SOCK_STREAM);
  int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const rpc::SocketAddress address(at);
  if (::bind(listener, address.get(), address.length()) != 0 || ::listen(listener, 64) != 0) {
    return fail(Errc::kIo, "cannot listen on {}: {}", to_string(at), std::strerror(errno));
  }
  std::signal(SIGCHLD, SIG_IGN);  // ended workers leave nothing behind
  log_info("worker: listening on {}", to_string(at));
  while (true) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(listener);
      serve_controller(fd);
      ::_exit(0);
    }
    if (child < 0) log_error("worker: cannot start a process: {}", std::strerror(errno));
    ::close(fd);
  }
}

}  // namespace slice::load
