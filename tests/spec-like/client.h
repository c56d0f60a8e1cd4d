// Client: one simulated client: a connection, a folder of its own with its file set, and a pacer. The load is
// open: each transaction has a time at which it is due, drawn beforehand, and begins then whether others have
// ended or not; where too many are under way it begins late, and its latency counts from when it was due all
// the same.
#ifndef SLICE_TESTS_SPEC_LIKE_CLIENT_H
#define SLICE_TESTS_SPEC_LIKE_CLIENT_H

#include "tests/spec-like/operations.h"

namespace slice::load {

// The monotonic clock now, not when the loop's round began.
MonoTime precise_now();

// Times between transactions of a Poisson process, the same for the same seed.
class Pacer {
 public:
  Pacer(std::uint64_t seed, double per_second, MonoTime begin);
  MonoTime due() const { return due_; }
  void next();

 private:
  sim::Random random_;
  double mean_ns_;
  MonoTime due_;
};

class Client {
 public:
  struct Options {
    Target target;
    std::uint64_t seed = 1;
    std::uint32_t outstanding = 256;  // transactions under way at most
  };
  Client(rpc::EpollLoop& loop, const Mix& mix, Options options);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Makes the folder `name` in the root.
  Task<Status> prepare(Handle root, std::string name);
  // Makes files until there are as many as a load of so many operations a second wants.
  Task<Status> grow(double operations_per_second);

  struct Phase {
    double operations_per_second = 0;
    MonoTime begin, measure_from, end;
  };
  // Ends when all that was begun has ended.
  Task<void> run(Phase phase);
  // Removes all that was made.
  Task<Status> clean();

  // What was counted since the last time.
  Tally take_tally();
  std::uint64_t files() const { return files_.files(); }

 private:
  struct Subject {
    File* file = nullptr;
    std::uint32_t directory = 0;
    Link* link = nullptr;
  };

  Task<bool> build_directory(std::uint32_t number);
  Task<bool> build_file(std::uint32_t directory, std::uint64_t size);
  Task<bool> make_temporary();
  Task<void> clean_directory(Directory& directory);

  void pace();
  void begin_transaction(MonoTime due);
  void count_not_sent();
  Task<void> transaction(const Transaction& what, MonoTime due);
  Task<Subject> choose(const Transaction& what);
  File* choose_file(const Transaction& what, bool exclusive);
  void release(const Subject& subject);
  Task<bool> step(Step what, Subject& subject);
  Task<bool> lookup_step(Subject& subject);
  void record(nfs3::Procedure procedure, MonoTime due, MonoTime ended);
  std::uint64_t draw_size() { return mix_.sizes[sizes_.draw(files_.random())].bytes; }

  rpc::EpollLoop& loop_;
  const Mix& mix_;
  Options options_;
  Nfs nfs_;
  FileSet files_;
  Operations operations_;
  Chooser transactions_, sizes_;
  Handle root_, folder_;
  std::string folder_name_;
  std::uint64_t resent_before_ = 0, told_to_wait_before_ = 0;

  Phase phase_;
  std::optional<Pacer> pacer_;
  std::uint64_t runs_ = 0;
  std::uint32_t in_flight_ = 0;
  bool full_ = false;  // the pacer waits for a transaction to end
  bool over_ = false;  // nothing begins any more
  std::optional<OneShot<bool>> idle_;
};

// What an operation is measured as.
nfs3::Procedure procedure_of(Step step);

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_CLIENT_H
