// What a client sees of sites that move: it fills a directory, and goes on working in it.
//
//   switch_bench --server A [--export PATH] --work names|files --steps N,N,... [--outstanding N]
//
// names: a directory of empty files, in which names are created, looked up and removed. files: files of
// 1 KiB, which are written and read. At each step the directory is filled up to so many; then a line says
// which directory site it is on, and the work goes on until a line comes on standard input, which is answered
// with how it went: after "next" comes the next step, after any other the same once more. Each answer is
// checked. Exit code 1 when one was wrong.
//
// How it went: of each 10 ms in which operations ended, [the end of these 10 ms by the wall clock in
// milliseconds, how many operations, how long the slowest took in milliseconds], in the order of time.

#include <poll.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/bench/sites.h"
#include "tests/cluster/client/session.h"
#include "tests/cluster/guest/check.h"

namespace slice::client {
namespace {

constexpr std::uint64_t kSlotMs = 10, kFileBytes = 1024, kFillOutstanding = 64;
constexpr double kAsk = 0.05;  // seconds, between two looks at standard input

std::uint64_t wall_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

bool line_is_there() {
  pollfd input{.fd = 0, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, 0) > 0;
}

class Bench {
 public:
  Bench(const Settings& settings, const Arguments& arguments)
      : session_(settings, "switch"),
        folder_(session_.make_folder("large")),
        files_(arguments.needed("--work") == "files"),
        outstanding_(arguments.number("--outstanding", 4)),
        bytes_(kFileBytes, 'x') {}

  void fill(std::uint64_t count) {
    for (std::uint64_t i = there_; i < count || busy_ > 0;) {
      while (i < count && busy_ < kFillOutstanding) {
        ++busy_;
        create(name_of(i++), [this](const Handle& made) {
          if (!files_) return done();
          handles_.push_back(made);
          write(handles_.size() - 1, [this] { done(); });
        });
      }
      session_.nfs().run_once(0.1);
    }
    there_ = count;
  }

  std::uint32_t site() const { return directory_site(folder_); }

  // Until a line is there.
  nlohmann::json work() {
    slots_.clear();
    for (double asked = now(); !over_;) {
      while (busy_ < outstanding_) {
        ++busy_;
        files_ ? work_on_file() : work_on_name();
      }
      session_.nfs().run_once(kAsk);
      if (now() < asked + kAsk) continue;
      asked = now();
      over_ = line_is_there();
    }
    while (busy_ > 0) session_.nfs().run_once(kAsk);
    over_ = false;
    nlohmann::json said = nlohmann::json::array();
    for (const auto& [slot, seen] : slots_)
      said.push_back({(slot + 1) * kSlotMs, seen.count, seen.slowest * 1e3});
    return said;
  }

 private:
  using Done = std::function<void()>;
  struct Slot {
    std::uint64_t count = 0;
    double slowest = 0;
  };

  static std::string name_of(std::uint64_t number) { return "entry-" + std::to_string(number); }
  std::uint64_t any() { return guest::next_random(random_) % there_; }
  void done() { --busy_; }

  // A name comes, another one is looked up, and it goes: so the directory stays as large as it is.
  void work_on_name() {
    const std::string name = "passing-" + std::to_string(++passing_);
    create(name, [this, name](const Handle&) {
      lookup(name_of(any()), [this, name] { remove(name, [this] { done(); }); });
    });
  }
  void work_on_file() {
    write(any(), [this] { read(any(), [this] { done(); }); });
  }

  void create(const std::string& name, const std::function<void(const Handle&)>& then) {
    send<CREATE3args, CREATE3res>(
        kCreate, "CREATE", [this, name] { return create_arguments(folder_, keep(name), GUARDED); },
        [then](const CREATE3res& result) {
          then(Handle(result.CREATE3res_u.resok.obj.post_op_fh3_u.handle));
        });
  }
  void lookup(const std::string& name, const Done& then) {
    send<LOOKUP3args, LOOKUP3res>(
        kLookup, "LOOKUP", [this, name] { return LOOKUP3args{in_folder(folder_, keep(name))}; },
        [then](const LOOKUP3res&) { then(); });
  }
  void remove(const std::string& name, const Done& then) {
    send<REMOVE3args, REMOVE3res>(
        kRemove, "REMOVE", [this, name] { return REMOVE3args{in_folder(folder_, keep(name))}; },
        [then](const REMOVE3res&) { then(); });
  }
  void write(std::uint64_t file, const Done& then) {
    send<WRITE3args, WRITE3res>(
        kWrite, "WRITE", [this, file] { return write_arguments(handles_[file], 0, bytes_, FILE_SYNC); },
        [then](const WRITE3res& result) {
          if (result.WRITE3res_u.resok.count != kFileBytes) throw RpcError("a short WRITE");
          then();
        });
  }
  void read(std::uint64_t file, const Done& then) {
    send<READ3args, READ3res>(
        kRead, "READ", [this, file] { return read_arguments(handles_[file], 0, kFileBytes); },
        [this, then](const READ3res& result) {
          const auto& data = result.READ3res_u.resok.data;
          if (std::string_view(data.data_val, data.data_len) != bytes_) throw RpcError("other bytes");
          then();
        });
  }

  // Arguments point into a name, which is encoded before the next call has one.
  const std::string& keep(const std::string& name) { return name_ = name; }

  // One operation; asked again when told to wait, which is part of how long it takes.
  template <typename Arguments, typename Result>
  void send(const Procedure<Arguments, Result>& procedure, const char* what,
            const std::function<Arguments()>& arguments, const std::function<void(const Result&)>& then,
            double started = now()) {
    session_.nfs().call_async<Arguments, Result>(
        procedure, arguments(),
        [=, this, &procedure](const Answer<Result>& answer, const std::string& error) {
          if (!answer) throw RpcError(error);
          const Result& result = **answer;
          if (result.status == NFS3ERR_JUKEBOX) return send(procedure, what, arguments, then, started);
          if (result.status != NFS3_OK)
            throw RpcError(std::string(what) + " answers " + status_name(result.status));
          Slot& slot = slots_[wall_ms() / kSlotMs];
          ++slot.count;
          slot.slowest = std::max(slot.slowest, now() - started);
          then(result);
        });
  }

  Session session_;
  Handle folder_;
  bool files_;
  std::uint64_t outstanding_;
  std::string bytes_, name_;
  std::vector<Handle> handles_;  // of files, by number
  std::map<std::uint64_t, Slot> slots_;
  std::uint64_t there_ = 0, busy_ = 0, passing_ = 0, random_ = 1;
  bool over_ = false;
};

void say(const nlohmann::json& what) {
  std::printf("%s\n", what.dump().c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {});
  try {
    Bench bench(settings_from(arguments), arguments);
    std::istringstream steps(arguments.needed("--steps"));
    for (std::string step; std::getline(steps, step, ',');) {
      bench.fill(std::stoull(step));
      for (std::string line; line != "next";) {
        say({{"site", bench.site()}});
        const nlohmann::json worked = bench.work();
        if (!std::getline(std::cin, line)) return 1;
        say(worked);
      }
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "switch_bench: %s\n", error.what());
    return 1;
  }
}
