#include "tests/spec-like/worker.h"

#include <sys/resource.h>

#include "tests/spec-like/finished.h"

namespace slice::load {
namespace {

constexpr Duration kStart = std::chrono::milliseconds(5);  // until the first transaction is due

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

Task<double> processor_between(rpc::EpollLoop& loop, MonoTime from, MonoTime end) {
  co_await loop.sleep(from - precise_now());
  const double before = processor_seconds();
  co_await loop.sleep(end - precise_now());
  co_return processor_seconds() - before;
}

Task<void> store(Task<double> task, double& out) {
  out = co_await task;
}

}  // namespace

Worker::~Worker() {
  clients_.clear();
}

template <class T>
T Worker::wait(Task<T> task) {
  std::optional<T> value;
  spawn(std::move(task), value);
  while (!value) loop_.run_until([&] { return value.has_value(); }, std::chrono::hours(1));
  return std::move(*value);
}

template <class Do>
Status Worker::each_client(Do action) {
  std::vector<Task<Status>> tasks;
  for (auto& client : clients_) tasks.push_back(action(*client));
  for (Status& each : wait(all(std::move(tasks)))) SLICE_RETURN_IF_ERROR(std::move(each));
  return {};
}

Status Worker::prepare(const Job& job) {
  auto mix = parse_mix(job.mix, "mix");
  if (!mix) return fail(std::move(mix).error());
  mix_ = std::move(*mix);
  Target target = job.target;
  SLICE_RETURN_IF_ERROR(load_tls(target));
  auto root = wait(mount_root(loop_, target));
  if (!root) return fail(std::move(root).error());
  for (std::uint64_t i = 0; i < job.clients; ++i) {
    clients_.push_back(std::make_unique<Client>(
        loop_, mix_,
        Client::Options{.target = target, .seed = sim::mix(job.seed + i), .outstanding = job.outstanding}));
  }
  std::vector<Task<Status>> tasks;
  for (std::uint64_t i = 0; i < job.clients; ++i) {
    tasks.push_back(clients_[i]->prepare(*root, fmt::format("{}-{}", job.folder, i)));
  }
  for (Status& each : wait(all(std::move(tasks)))) SLICE_RETURN_IF_ERROR(std::move(each));
  return {};
}

Status Worker::grow(double operations_per_second) {
  if (clients_.empty()) return fail(Errc::kInvalid, "not prepared");
  const double each = operations_per_second / static_cast<double>(clients_.size());
  return each_client([each](Client& client) { return client.grow(each); });
}

Result<Tally> Worker::run(double operations_per_second, double warm_up, double interval) {
  if (clients_.empty()) return fail(Errc::kInvalid, "not prepared");
  Client::Phase phase;
  phase.operations_per_second = operations_per_second / static_cast<double>(clients_.size());
  phase.begin = precise_now() + kStart;
  phase.measure_from = phase.begin + seconds(warm_up);
  phase.end = phase.measure_from + seconds(interval);
  std::vector<Task<bool>> tasks;
  for (auto& client : clients_) tasks.push_back(finished(client->run(phase)));
  double used = 0;
  tasks.push_back(finished(store(processor_between(loop_, phase.measure_from, phase.end), used)));
  wait(all(std::move(tasks)));
  Tally sum;
  for (auto& client : clients_) sum.merge(client->take_tally());
  sum.processor_seconds = used;
  return sum;
}

Status Worker::clean() {
  return each_client([](Client& client) { return client.clean(); });
}

std::uint64_t Worker::files() const {
  std::uint64_t sum = 0;
  for (const auto& client : clients_) sum += client->files();
  return sum;
}

std::vector<std::string> Worker::take_texts() {
  Tally sum;
  for (auto& client : clients_) sum.merge(client->take_tally());
  return sum.texts;
}

}  // namespace slice::load
