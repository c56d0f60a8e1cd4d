// Operations per second of an NFSv3 server over TCP: one client thread, a number of calls outstanding.
//
//   ops_bench --server A --export PATH [--seconds N] [--outstanding N] [--only OP,...] [--pids NAME=PID,...]
//             [--data-server A:PORT] [--name FOLDER] [--megabytes N] [--in-step] [--trace] [--json]
//
// Measures null, getattr, access, lookup, create_remove, read_8k, write_8k, write_8k_sync, write_1m and
// read_1m, and read_write_1m where --only names it. For each it says operations per second, MB/s where bytes
// move, and the processor time that each process of --pids used per operation. With --data-server only
// write_1m and read_1m run, names and attributes going to --server but bytes straight there: what a direct
// connection does, to hold the proxy against. Every answer's status and count is checked. --name: of the
// folder that it works in; several at once need their own.
// --in-step: says `ready` in a line of its own before each measurement, and begins when a line comes; so
// several begin at the same time.
// --trace: with --json, of each operation of 1 MiB when it began and ended (seconds of the monotonic clock),
// its bytes, and which it was.
//
// read_write_1m reads one file of --megabytes and writes another anew, half of the outstanding calls each;
// when that is written and committed, it reads that and writes the first. Every byte that is read is checked.
// With
// --in-step the lines `outstanding N` and `end` may come while it goes on.
//
// Exit code 1 when a call failed, or a byte was wrong.

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
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

// One operation of 1 MiB, or the COMMIT of a file of them.
struct Traced {
  double began = 0, ended = 0;
  std::uint32_t bytes = 0;
  const char* what = "";
};

struct Figure {
  std::string name;
  std::uint64_t operations = 0, bytes = 0;
  std::uint64_t asked_again = 0;  // calls that were answered JUKEBOX
  double seconds = 0;
  std::map<std::string, double> processor_us;  // per operation, by process
  std::vector<Traced> trace;
};

// What whoever started this program says, line by line.
class Lines {
 public:
  // Waits so long at most, for ever with -1; none while there is no whole line. Throws at the end of all.
  std::optional<std::string> next(int milliseconds) {
    for (;;) {
      if (const std::size_t end = said_.find('\n'); end != std::string::npos) {
        std::string line = said_.substr(0, end);
        said_.erase(0, end + 1);
        return line;
      }
      pollfd input{STDIN_FILENO, POLLIN, 0};
      if (::poll(&input, 1, milliseconds) <= 0) return std::nullopt;
      std::array<char, 256> bytes;
      const ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
      if (size <= 0) throw RpcError("nobody says when to begin, or to end");
      said_.append(bytes.data(), static_cast<std::size_t>(size));
    }
  }

 private:
  std::string said_;
};

// The bytes of records that are written anew again and again. Each block says which record of which file it
// is, and how often that was written; the rest is a pattern.
class Stamped {
 public:
  Stamped() : bytes_(guest::pattern(4, 0, kRecord)) {}

  std::shared_ptr<const std::string> record(std::uint64_t number, std::uint64_t times) const {
    auto record = std::make_shared<std::string>(bytes_);
    const Stamp stamp{number, times};
    for (std::size_t at = 0; at < kRecord; at += kStampedBlock) {
      std::memcpy(record->data() + at, &stamp, sizeof stamp);
    }
    return record;
  }

  // Throws unless that is the record's beginning, each block written as often as is said.
  void check(std::string_view got, std::uint64_t number, std::uint64_t least, std::uint64_t most) const {
    for (std::size_t at = 0; at < got.size(); at += kStampedBlock) {
      const std::string_view block = got.substr(at, kStampedBlock);
      Stamp stamp;
      if (block.size() < sizeof stamp) continue;
      std::memcpy(&stamp, block.data(), sizeof stamp);
      const bool good = stamp.number == number && stamp.times >= least && stamp.times <= most &&
                        block.substr(sizeof stamp) ==
                            std::string_view(bytes_).substr(at + sizeof stamp, block.size() - sizeof stamp);
      if (good) continue;
      throw RpcError("READ answers wrong bytes: record " + std::to_string(number) + ", byte " +
                     std::to_string(at) + ": of record " + std::to_string(stamp.number) + ", written " +
                     std::to_string(stamp.times) + " times instead of " + std::to_string(least) + " to " +
                     std::to_string(most));
    }
  }

 private:
  struct Stamp {
    std::uint64_t number, times;
  };
  static constexpr std::size_t kStampedBlock = 4096;

  std::string bytes_;
};

class Bench {
 public:
  Bench(const Settings& settings, const Arguments& arguments)
      : session_(settings, arguments.text("--name", "ops-bench")),
        data_(&session_.nfs()),
        seconds_(static_cast<double>(arguments.number("--seconds", 2))),
        outstanding_(arguments.number("--outstanding", 16)),
        records_(arguments.number("--megabytes", 24)),
        in_step_(arguments.flag("--in-step")),
        traces_(arguments.flag("--trace")),
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
                                                             {"read_1m", &Bench::read_1m},
                                                             {"read_write_1m", &Bench::read_write_1m}};
    std::vector<Figure> figures;
    for (const auto& [name, member] : all) {
      if (direct_ && !name.ends_with("_1m")) continue;
      if (!only.empty() && ("," + only + ",").find("," + name + ",") == std::string::npos) continue;
      if (only.empty() && name == "read_write_1m") continue;
      if (names_.empty() && !name.ends_with("_1m")) make_files();
      if (name == "read_1m" && written_ == 0) make_sequential();
      if (name == "read_write_1m") make_rewritten();
      if (in_step_) await_the_others();
      figures.push_back(measure(name, member));
    }
    session_.remove_folder();
    return figures;
  }

 private:
  void await_the_others() {
    std::printf("ready\n");
    std::fflush(stdout);
    lines_.next(-1);
  }

  // Does what has been said meanwhile.
  void heed() {
    while (const std::optional<std::string> line = lines_.next(0)) {
      constexpr std::string_view kOutstanding = "outstanding ";
      if (*line == "end") {
        until_ = 0;
        return;
      }
      if (line->starts_with(kOutstanding)) {
        outstanding_ = std::stoull(line->substr(kOutstanding.size()));
      } else {
        throw RpcError("told '" + *line + "', which is neither `outstanding N` nor `end`");
      }
    }
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
    keep_going(nfs, start, [this] { return now() < until_; });
  }

  // The same as long as `goes_on`.
  void keep_going(NfsConnection& nfs, const std::function<void()>& start,
                  const std::function<bool()>& goes_on) {
    busy_ = 0;
    for (;;) {
      while (busy_ < outstanding_ && goes_on()) {
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

  void trace(double began, std::uint32_t bytes, const char* what) {
    if (traces_) figure_.trace.push_back({began, now(), bytes, what});
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
      read_piece({&session_.nfs(), files_[any_file()], offset}, kBlock);
    });
  }

  void write_8k() { write_blocks(UNSTABLE); }
  void write_8k_sync() { write_blocks(FILE_SYNC); }

  void write_blocks(stable_how stable) {
    const auto bytes = std::make_shared<const std::string>(guest::pattern(2, 0, kBlock));
    keep_going(session_.nfs(), [this, stable, bytes] {
      const std::uint64_t offset = guest::next_random(random_) % kBlocks * kBlock;
      write_piece({&session_.nfs(), files_[any_file()], offset}, bytes, stable);
    });
  }

  // Sequential over the bytes that lie above the threshold of any volume measured here, again and again.
  void write_1m() {
    sequential_ = session_.create("sequential");
    const auto bytes = std::make_shared<const std::string>(guest::pattern(3, 0, kRecord));
    at_ = 0;
    keep_going(*data_, [this, bytes] { write_piece({data_, sequential_, next_record()}, bytes, UNSTABLE); });
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
    keep_going(*data_, [this] { read_piece({data_, sequential_, next_record()}, kRecord); });
  }

  // One of the two files of read_write_1m.
  struct Rewritten {
    Handle handle;
    std::uint64_t times = 0, committed = 0;  // how often it was begun to be written, and was in whole
    std::uint64_t answered = 0;              // of this time's records
  };

  // Writes both for the first time.
  void make_rewritten() {
    for (Rewritten& file : rewritten_) {
      file.handle = session_.create(&file == &rewritten_[0] ? "first" : "second");
      file.times = 1;
      std::uint64_t next = 0;
      keep_going(*data_, [&] { write_record(file, next++); }, [&] { return next < records_; });
      session_.commit(file.handle);
      file.committed = 1;
    }
  }

  void read_write_1m() {
    record_ = records_;
    keep_going(
        *data_,
        [this] {
          if (2 * writing_ < outstanding_ && may_write()) {
            write_record(rewritten_[turn_], record_++);
          } else {
            read_record();
          }
        },
        [this] {
          if (in_step_ && until_ != 0) heed();
          return now() < until_;
        });
  }

  // Whether there is a record to be written: where one file is, the other one is begun, unless its own COMMIT
  // is not answered yet.
  bool may_write() {
    if (record_ < records_) return true;
    Rewritten& next = rewritten_[1 - turn_];
    if (next.committed != next.times) return false;
    turn_ = 1 - turn_;
    ++next.times;
    next.answered = record_ = 0;
    return true;
  }

  void write_record(Rewritten& file, std::uint64_t record) {
    ++writing_;
    write_piece({data_, file.handle, (1 + record) * kRecord}, stamped_.record(record, file.times), UNSTABLE,
                [this, &file] {
                  --writing_;
                  if (++file.answered == records_ && file.committed != 0) commit(file, now());
                });
  }

  void commit(Rewritten& file, double began) {
    ++busy_;
    send_commit(file, began);
  }

  void send_commit(Rewritten& file, double began) {
    data_->call_async<COMMIT3args, COMMIT3res>(
        kCommit, {file.handle.raw(), 0, 0},
        [this, &file, began](const Answer<COMMIT3res>& answer, const std::string& error) {
          const nfsstat3 status = need(answer, error).status;
          if (status == NFS3ERR_JUKEBOX) return later([this, &file, began] { send_commit(file, began); });
          trace(began, 0, "commit");
          file.committed = file.times;
          finish(status, "COMMIT");
        });
  }

  // Of the file that is not written now: its COMMIT may still be under way, and it may be begun to be written
  // anew before the answer.
  void read_record() {
    const Rewritten& file =
        rewritten_[rewritten_[turn_].committed == rewritten_[turn_].times ? turn_ : 1 - turn_];
    const std::uint64_t record = at_++ % records_, least = file.committed;
    read_piece({data_, file.handle, (1 + record) * kRecord}, kRecord,
               [this, &file, record, least](std::string_view bytes) {
                 stamped_.check(bytes, record, least, file.times);
               });
  }

  std::uint64_t next_record() {
    const std::uint64_t limit = written_ == 0 ? kSequentialBytes : written_;
    const std::uint64_t offset = kRecord + at_ % limit;
    at_ += kRecord;
    return offset;
  }

  // Of a file, what one READ or WRITE is of.
  struct Piece {
    NfsConnection* nfs;
    const Handle& file;
    std::uint64_t offset;
    double began = now();
  };

  void read_piece(const Piece& piece, std::uint32_t size,
                  const std::function<void(std::string_view)>& done = {}) {
    piece.nfs->call_async<READ3args, READ3res>(
        kRead, read_arguments(piece.file, piece.offset, size),
        [this, piece, size, done](const Answer<READ3res>& answer, const std::string& error) {
          const READ3res& result = need(answer, error);
          if (result.status == NFS3ERR_JUKEBOX) {
            return later([this, piece, size, done] { read_piece(piece, size, done); });
          }
          // A short answer is legal; what it brought counts.
          const std::uint32_t count = result.status == NFS3_OK ? result.READ3res_u.resok.count : 0;
          if (result.status == NFS3_OK && count == 0) throw RpcError("READ answers no bytes");
          if (done && result.status == NFS3_OK) done({result.READ3res_u.resok.data.data_val, count});
          if (size == kRecord) trace(piece.began, count, "read");
          finish(result.status, "READ", count);
        });
  }

  void write_piece(const Piece& piece, const std::shared_ptr<const std::string>& bytes, stable_how stable,
                   const std::function<void()>& done = {}) {
    piece.nfs->call_async<WRITE3args, WRITE3res>(
        kWrite, write_arguments(piece.file, piece.offset, *bytes, stable),
        [this, piece, bytes, stable, done](const Answer<WRITE3res>& answer, const std::string& error) {
          const WRITE3res& result = need(answer, error);
          if (result.status == NFS3ERR_JUKEBOX) {
            return later([this, piece, bytes, stable, done] { write_piece(piece, bytes, stable, done); });
          }
          const std::uint32_t count = result.status == NFS3_OK ? result.WRITE3res_u.resok.count : 0;
          if (result.status == NFS3_OK && count != bytes->size())
            throw RpcError("WRITE answers a short count");
          if (bytes->size() == kRecord) trace(piece.began, count, "write");
          finish(result.status, "WRITE", count);
          if (done) done();
        });
  }

  std::vector<std::function<void()>> waiting_;  // for again_at_
  double again_at_ = 0;
  Session session_;
  std::unique_ptr<NfsConnection> direct_;
  NfsConnection* data_;
  double seconds_;
  std::uint64_t outstanding_;
  std::uint64_t records_;  // of each file of read_write_1m
  bool in_step_, traces_;
  Lines lines_;
  std::map<std::string, int> pids_;
  std::vector<std::string> names_;
  std::vector<Handle> files_;
  Handle sequential_;
  Stamped stamped_;
  std::array<Rewritten, 2> rewritten_;
  std::size_t turn_ = 0;                    // which of them is written now
  std::uint64_t record_ = 0, writing_ = 0;  // the next record of it, and WRITEs that are under way
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
    for (const Traced& one : figure.trace) {
      all[figure.name]["trace"].push_back({one.began, one.ended, one.bytes, one.what});
    }
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
  const Arguments arguments(argc, argv, {"--json", "--in-step", "--trace"});
  try {
    Bench bench(settings_from(arguments), arguments);
    print(bench.run(arguments.text("--only", "")), arguments.flag("--json"));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ops_bench: %s\n", error.what());
    return 1;
  }
}
