// Operations per second of an NFSv3 server over TCP: one client thread, a number of calls outstanding.
//
//   ops_bench --server A --export PATH [--seconds N] [--outstanding N] [--only OP,...] [--pids NAME=PID,...]
//             [--data-server A:PORT] [--name FOLDER] [--in-step] [--json]
//
// Measures null, getattr, access, lookup, create_remove, read_8k, write_8k, write_8k_sync, write_1m and
// read_1m. For each it says operations per second, MB/s where bytes move, and the processor time that each
// process of --pids used per operation. With --data-server only write_1m and read_1m run, names and
// attributes going to --server but bytes straight there: what a direct connection does, to hold the proxy
// against. Every answer's status and count is checked. --name: of the folder that it works in; several at
// once need their own.
// --in-step: says `ready` in a line of its own before each measurement, and begins when a line comes; so
// several begin at the same time. Exit code 1 when a call failed.

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/bench/processes.h"
#include "tests/cluster/client/session.h"
#include "tests/cluster/guest/check.h"

namespace slice::client {
namespace {

constexpr std::size_t kFiles = 100;
constexpr std::uint32_t kBlock = 8192, kBlocks = 4, kRecord = 1 << 20;
constexpr std::uint64_t kSequentialBytes = 192ULL << 20;
constexpr std::uint64_t kReadBytes = 64ULL << 20;  // of the file that read_1m makes

struct Figure {
  std::string name;
  std::uint64_t operations = 0, bytes = 0;
  std::uint64_t asked_again = 0;  // calls that were answered JUKEBOX
  double seconds = 0;
  std::map<std::string, double> processor_us;  // per operation, by process
};

class Bench {
 public:
  Bench(const Settings& settings, const Arguments& arguments)
      : session_(settings, arguments.text("--name", "ops-bench")),
        data_(&session_.nfs()),
        seconds_(static_cast<double>(arguments.number("--seconds", 2))),
        outstanding_(arguments.number("--outstanding", 16)),
        in_step_(arguments.flag("--in-step")),
        pids_(pids_from(arguments.text("--pids", ""))) {
    const std::string direct = arguments.text("--data-server", "");
    if (!direct.empty()) {
      ConnectionOptions options = session_.nfs_options({});
      options.server = direct.substr(0, direct.find(':'));
      options.port = static_cast<std::uint16_t>(std::stoi(direct.substr(direct.find(':') + 1)));
      direct_ = std::make_unique<NfsConnection>(options);
      data_ = direct_.get();
    }
  }

  std::vector<Figure> run(const std::string& only) {
    using Member = void (Bench::*)();
    const std::vector<std::pair<std::string, Member>> all = {{"null", &Bench::null},
                                                             {"getattr", &Bench::getattr},
                                                             {"access", &Bench::access},
                                                             {"lookup", &Bench::lookup},
                                                             {"create_remove", &Bench::create_remove},
                                                             {"read_8k", &Bench::read_8k},
                                                             {"write_8k", &Bench::write_8k},
                                                             {"write_8k_sync", &Bench::write_8k_sync},
                                                             {"write_1m", &Bench::write_1m},
                                                             {"read_1m", &Bench::read_1m}};
    std::vector<Figure> figures;
    for (const auto& [name, member] : all) {
      if (direct_ && !name.ends_with("_1m")) continue;
      if (!only.empty() && ("," + only + ",").find("," + name + ",") == std::string::npos) continue;
      if (names_.empty() && !name.ends_with("_1m")) make_files();
      if (name == "read_1m" && written_ == 0) make_sequential();
      if (in_step_) await_the_others();
      figures.push_back(measure(name, member));
    }
    session_.remove_folder();
    return figures;
  }

 private:
  static void await_the_others() {
    std::printf("ready\n");
    std::fflush(stdout);
    std::string line;
    if (!std::getline(std::cin, line)) throw RpcError("nobody says when to begin");
  }

  Figure measure(const std::string& name, void (Bench::*member)()) {
    figure_ = {.name = name};
    std::map<std::string, double> before;
    for (const auto& [process, pid] : pids_) before[process] = processor_seconds(pid);
    const double start = now();
    until_ = start + seconds_;
    (this->*member)();
    figure_.seconds = now() - start;
    for (const auto& [process, pid] : pids_) {
      figure_.processor_us[process] = (processor_seconds(pid) - before[process]) * 1e6 /
                                      static_cast<double>(std::max<std::uint64_t>(figure_.operations, 1));
    }
    return figure_;
  }

  void make_files() {
    const std::string bytes = guest::pattern(1, 0, kBlock * kBlocks);
    for (std::size_t i = 0; i < kFiles; ++i) {
      names_.push_back("file-" + std::to_string(i));
      files_.push_back(session_.create(names_.back()));
      session_.write(files_.back(), 0, bytes, UNSTABLE);
      session_.commit(files_.back());
    }
  }

  // Keeps as many calls outstanding as asked for until the time is over; `start` begins one and has `finish`
  // called.
  void keep_going(NfsConnection& nfs, const std::function<void()>& start) {
    busy_ = 0;
    for (;;) {
      const bool more = now() < until_;
      while (more && busy_ < outstanding_) {
        ++busy_;
        start();
      }
      if (busy_ == 0) return;
      nfs.run_once(0.1);
      if (waiting_.empty() || now() < again_at_) continue;
      for (const auto& call : std::exchange(waiting_, {})) call();
    }
  }

  // A call that was answered JUKEBOX is made once more, as clients do, soon.
  void later(std::function<void()> call) {
    constexpr double kPause = 0.1;
    if (waiting_.empty()) again_at_ = now() + kPause;
    ++figure_.asked_again;
    waiting_.push_back(std::move(call));
  }

  void finish(nfsstat3 status, const char* what, std::uint64_t bytes = 0) {
    if (status != NFS3_OK) throw RpcError(std::string(what) + " answers " + status_name(status));
    ++figure_.operations;
    figure_.bytes += bytes;
    --busy_;
  }

  template <typename Result>
  static const Result& need(const Answer<Result>& answer, const std::string& error) {
    if (!answer) throw RpcError(error);
    return **answer;
  }

  std::size_t any_file() { return guest::next_random(random_) % kFiles; }

  void null() {
    keep_going(session_.nfs(), [this] {
      session_.nfs().call_async<Nothing, Nothing>(
          kNull, {}, [this](const Answer<Nothing>& answer, const std::string& error) {
            need(answer, error);
            finish(NFS3_OK, "NULL");
          });
    });
  }

  void getattr() {
    keep_going(session_.nfs(), [this] {
      session_.nfs().call_async<GETATTR3args, GETATTR3res>(
          kGetattr, {files_[any_file()].raw()},
          [this](const Answer<GETATTR3res>& answer, const std::string& error) {
            finish(need(answer, error).status, "GETATTR");
          });
    });
  }

  void access() {
    keep_going(session_.nfs(), [this] {
      session_.nfs().call_async<ACCESS3args, ACCESS3res>(
          kAccess, {files_[any_file()].raw(), ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND},
          [this](const Answer<ACCESS3res>& answer, const std::string& error) {
            finish(need(answer, error).status, "ACCESS");
          });
    });
  }

  void lookup() {
    keep_going(session_.nfs(), [this] {
      session_.nfs().call_async<LOOKUP3args, LOOKUP3res>(
          kLookup, {in_folder(session_.folder(), names_[any_file()])},
          [this](const Answer<LOOKUP3res>& answer, const std::string& error) {
            finish(need(answer, error).status, "LOOKUP");
          });
    });
  }

  void create_remove() {
    keep_going(session_.nfs(), [this] {
      const auto name = std::make_shared<std::string>("pair-" + std::to_string(++pairs_));
      session_.nfs().call_async<CREATE3args, CREATE3res>(
          kCreate, create_arguments(session_.folder(), *name, GUARDED),
          [this, name](const Answer<CREATE3res>& made, const std::string& error) {
            if (need(made, error).status != NFS3_OK) throw RpcError("CREATE failed");
            session_.nfs().call_async<REMOVE3args, REMOVE3res>(
                kRemove, {in_folder(session_.folder(), *name)},
                [this, name](const Answer<REMOVE3res>& gone, const std::string& error2) {
                  finish(need(gone, error2).status, "REMOVE");
                });
          });
    });
  }

  void read_8k() {
    keep_going(session_.nfs(), [this] {
      const std::uint64_t offset = guest::next_random(random_) % kBlocks * kBlock;
      read_piece(session_.nfs(), files_[any_file()], offset, kBlock);
    });
  }

  void write_8k() { write_blocks(UNSTABLE); }
  void write_8k_sync() { write_blocks(FILE_SYNC); }

  void write_blocks(stable_how stable) {
    bytes_ = guest::pattern(2, 0, kBlock);
    keep_going(session_.nfs(), [this, stable] {
      const std::uint64_t offset = guest::next_random(random_) % kBlocks * kBlock;
      write_piece(session_.nfs(), files_[any_file()], offset, stable);
    });
  }

  // Sequential over the bytes that lie above the threshold of any volume measured here, again and again.
  void write_1m() {
    sequential_ = session_.create("sequential");
    bytes_ = guest::pattern(3, 0, kRecord);
    at_ = 0;
    keep_going(*data_, [this] { write_piece(*data_, sequential_, next_record(), UNSTABLE); });
    session_.commit(sequential_);
    written_ = std::min<std::uint64_t>(figure_.operations * kRecord, kSequentialBytes);
  }

  // What read_1m reads where write_1m has not made it.
  void make_sequential() {
    sequential_ = session_.create("sequential");
    const std::string record = guest::pattern(3, 0, kRecord);
    for (written_ = 0; written_ < kReadBytes; written_ += kRecord) {
      session_.write(sequential_, kRecord + written_, record, UNSTABLE);
    }
    session_.commit(sequential_);
  }

  void read_1m() {
    at_ = 0;
    keep_going(*data_, [this] {
      const std::uint64_t offset = next_record();
      read_piece(*data_, sequential_, offset, kRecord);
    });
  }

  std::uint64_t next_record() {
    const std::uint64_t limit = written_ == 0 ? kSequentialBytes : written_;
    const std::uint64_t offset = kRecord + at_ % limit;
    at_ += kRecord;
    return offset;
  }

  void read_piece(NfsConnection& nfs, const Handle& file, std::uint64_t offset, std::uint32_t size) {
    nfs.call_async<READ3args, READ3res>(
        kRead, read_arguments(file, offset, size),
        [this, &nfs, file, offset, size](const Answer<READ3res>& answer, const std::string& error) {
          const READ3res& result = need(answer, error);
          if (result.status == NFS3ERR_JUKEBOX) {
            return later([this, &nfs, file, offset, size] { read_piece(nfs, file, offset, size); });
          }
          // A short answer is legal; what it brought counts.
          const std::uint32_t count = result.status == NFS3_OK ? result.READ3res_u.resok.count : 0;
          if (result.status == NFS3_OK && count == 0) throw RpcError("READ answers no bytes");
          finish(result.status, "READ", count);
        });
  }

  void write_piece(NfsConnection& nfs, const Handle& file, std::uint64_t offset, stable_how stable) {
    nfs.call_async<WRITE3args, WRITE3res>(
        kWrite, write_arguments(file, offset, bytes_, stable),
        [this, &nfs, file, offset, stable](const Answer<WRITE3res>& answer, const std::string& error) {
          const WRITE3res& result = need(answer, error);
          if (result.status == NFS3ERR_JUKEBOX) {
            return later([this, &nfs, file, offset, stable] { write_piece(nfs, file, offset, stable); });
          }
          const std::uint32_t count = result.status == NFS3_OK ? result.WRITE3res_u.resok.count : 0;
          if (result.status == NFS3_OK && count != bytes_.size())
            throw RpcError("WRITE answers a short count");
          finish(result.status, "WRITE", count);
        });
  }

  std::vector<std::function<void()>> waiting_;  // for again_at_
  double again_at_ = 0;
  Session session_;
  std::unique_ptr<NfsConnection> direct_;
  NfsConnection* data_;
  double seconds_;
  std::uint64_t outstanding_;
  bool in_step_;
  std::map<std::string, int> pids_;
  std::vector<std::string> names_;
  std::vector<Handle> files_;
  Handle sequential_;
  std::string bytes_;
  Figure figure_;
  double until_ = 0;
  std::uint64_t busy_ = 0, pairs_ = 0, at_ = 0, written_ = 0, random_ = 1;
};

void print(const std::vector<Figure>& figures, bool json) {
  nlohmann::json all = nlohmann::json::object();
  for (const Figure& figure : figures) {
    const double per_second = static_cast<double>(figure.operations) / figure.seconds;
    const double megabytes = static_cast<double>(figure.bytes) / figure.seconds / 1e6;
    all[figure.name] = {{"per_second", per_second},
                        {"MB_per_second", megabytes},
                        {"asked_again", figure.asked_again},
                        {"processor_us", figure.processor_us}};
    if (json) continue;
    std::printf("%-14s %10.0f /s", figure.name.c_str(), per_second);
    if (figure.bytes != 0) std::printf(" %8.1f MB/s", megabytes);
    for (const auto& [process, us] : figure.processor_us) std::printf("  %s %.1f us", process.c_str(), us);
    std::printf("\n");
  }
  if (json) std::printf("%s\n", all.dump(1).c_str());
}

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {"--json", "--in-step"});
  try {
    Bench bench(settings_from(arguments), arguments);
    print(bench.run(arguments.text("--only", "")), arguments.flag("--json"));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ops_bench: %s\n", error.what());
    return 1;
  }
}
