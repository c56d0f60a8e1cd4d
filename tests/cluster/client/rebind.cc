// A load that notices everything, while sites are bound to the wrong servers behind its back (suites.py,
// `rebind`):
//
//   rebind --server A --export PATH --transport tcp|udp [--seconds N] [--while FILE] [--seed S]
//
// Reads, writes, commits, names and listings, each compared with what must be there. No call may answer an
// error, NFS3ERR_JUKEBOX included, and no COMMIT another verifier than its writes. Exit code 1 when something
// is wrong.

#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/cluster/client/session.h"
#include "tests/cluster/guest/check.h"

namespace slice::client {
namespace {

using guest::next_random;
using guest::pattern;

constexpr std::size_t kFiles = 40;
// Across the threshold of 64 KiB and over several stripes.
constexpr std::uint64_t kLargestOffset = 200'000, kLargestWrite = 120'000;

class Load {
 public:
  Load(const Settings& settings, std::uint64_t seed)
      : session_(settings, settings.transport == Transport::kUdp ? "rebind-udp" : "rebind-tcp"),
        // Over TCP a call of its own for each write: the proxy splits it, and pieces are relayed.
        piece_(settings.transport == Transport::kUdp ? 32 * 1024 : 1 << 20),
        random_(seed) {
    for (std::size_t i = 0; i < kFiles; ++i) {
      const std::string name = "file-" + std::to_string(i);
      files_.push_back({name, session_.create(name), {}});
    }
  }

  void step() {
    File& file = files_[below(kFiles)];
    const std::uint64_t what = below(100);
    if (what < 40) {
      write(file);
    } else if (what < 80) {
      read(file, below(file.content.size() + 1), below(kLargestWrite) + 1);
    } else if (what < 90) {
      check_size(file);
    } else if (what < 96) {
      change_names();
    } else {
      list();
    }
    if (counters().told_to_wait != 0) throw RpcError("a call was answered JUKEBOX");
    ++steps_;
  }
  void verify() {
    for (File& file : files_) {
      read(file, 0, file.content.size() + 1);
      check_size(file);
    }
    list();
  }
  void finish() { session_.remove_folder(); }
  std::uint64_t steps() const { return steps_; }
  const ConnectionCounters& counters() { return session_.nfs().counters(); }

 private:
  struct File {
    std::string name;
    Handle handle;
    std::string content;
  };

  std::uint64_t below(std::uint64_t limit) { return next_random(random_) % limit; }
  [[noreturn]] static void wrong(const File& file, const std::string& what) {
    throw std::runtime_error(file.name + ": " + what);
  }

  void write(File& file) {
    const std::uint64_t offset = below(kLargestOffset);
    const std::string bytes = pattern(next_random(random_), offset, below(kLargestWrite) + 1);
    const stable_how stable = below(2) == 0 ? UNSTABLE : FILE_SYNC;
    std::set<std::string> verifiers;
    for (std::size_t done = 0; done < bytes.size();) {
      const std::string_view piece = std::string_view(bytes).substr(done, piece_);
      const auto answer =
          session_.nfs().call(kWrite, write_arguments(file.handle, offset + done, piece, stable));
      if ((*answer)->status != NFS3_OK) {
        wrong(file, std::string("WRITE answers ") + status_name((*answer)->status));
      }
      const WRITE3resok& result = (*answer)->WRITE3res_u.resok;
      if (result.count == 0 || result.count > piece.size()) wrong(file, "WRITE answers a wrong count");
      verifiers.emplace(result.verf, sizeof result.verf);
      done += result.count;
    }
    if (file.content.size() < offset + bytes.size()) file.content.resize(offset + bytes.size());
    file.content.replace(offset, bytes.size(), bytes);
    if (stable != UNSTABLE) return;
    verifiers.insert(session_.commit(file.handle));
    if (verifiers.size() != 1) wrong(file, "COMMIT answers another verifier than the writes");
  }

  void read(File& file, std::uint64_t offset, std::size_t size) {
    std::string bytes;
    while (bytes.size() < size) {
      const std::uint64_t at = offset + bytes.size();
      const auto count = static_cast<std::uint32_t>(std::min(piece_, size - bytes.size()));
      const auto answer = session_.nfs().call(kRead, read_arguments(file.handle, at, count));
      if ((*answer)->status != NFS3_OK) {
        wrong(file, std::string("READ answers ") + status_name((*answer)->status));
      }
      const READ3resok& result = (*answer)->READ3res_u.resok;
      if (result.count != result.data.data_len || result.count > count)
        wrong(file, "READ answers a wrong count");
      bytes.append(result.data.data_val, result.data.data_len);
      if (result.eof != 0) break;
      if (result.count == 0) wrong(file, "READ answers nothing, and no end of file");
    }
    const std::string wanted = file.content.substr(offset, size);
    if (bytes == wanted) return;
    const auto differs = std::mismatch(bytes.begin(), bytes.end(), wanted.begin(), wanted.end());
    wrong(file, "READ of " + std::to_string(size) + " at " + std::to_string(offset) + " gives " +
                    std::to_string(bytes.size()) + " bytes instead of " + std::to_string(wanted.size()) +
                    ", other ones from " + std::to_string(offset + (differs.first - bytes.begin())));
  }

  void check_size(File& file) {
    const fattr3 attributes = session_.attributes(file.handle);
    if (attributes.size == file.content.size()) return;
    wrong(file, "GETATTR shows a size of " + std::to_string(attributes.size) + " instead of " +
                    std::to_string(file.content.size()));
  }

  void change_names() {
    const std::string name = "name-" + std::to_string(steps_);
    session_.create(name);
    session_.lookup(name);
    if (session_.remove(name) != NFS3_OK) throw std::runtime_error("REMOVE of " + name + " fails");
    if (session_.lookup_status(name) != NFS3ERR_NOENT) throw std::runtime_error(name + " is still there");
  }

  void list() {
    std::set<std::string> names;
    for (std::string& name : session_.list(session_.folder(), 4096, false)) names.insert(std::move(name));
    names.erase(".");
    names.erase("..");
    const bool all =
        std::all_of(files_.begin(), files_.end(), [&](const File& f) { return names.contains(f.name); });
    if (!all || names.size() != files_.size()) throw std::runtime_error("a listing is not right");
  }

  Session session_;
  std::size_t piece_;
  std::uint64_t random_;
  std::vector<File> files_;
  std::uint64_t steps_ = 0;
};

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {});
  const Settings settings = settings_from(arguments);
  const char* transport = settings.transport == Transport::kUdp ? "udp" : "tcp";
  const LoadTime time(arguments);
  try {
    Load load(settings, arguments.number("--seed", 1));
    while (!time.over()) load.step();
    load.verify();
    load.finish();
    std::printf(
        "ok rebind %s: %llu steps, no error, every byte right; %llu calls sent again, longest wait %.3f s\n",
        transport, static_cast<unsigned long long>(load.steps()),
        static_cast<unsigned long long>(load.counters().resent), load.counters().longest_wait);
  } catch (const std::exception& error) {
    std::printf("not ok rebind %s: %s\n", transport, error.what());
    return 1;
  }
  return 0;
}
