// The generator against a small server in memory: it finds nothing wrong with it, and notices every kind of
// lie.
#include "tests/spec-like/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "tests/spec-like/testing/toy_server.h"

namespace slice::load {
namespace {

using ::testing::HasSubstr;

// A toy server on a thread of its own. The loop outlives that thread: whoever stops it from outside is still
// in stop() when the thread ends.
class Toy {
 public:
  explicit Toy(Lie lie, Duration delay = Duration(0)) {
    std::atomic<bool> ready = false;
    thread_ = std::thread([&, lie, delay] {
      ToyServer server(loop_, lie);
      server.set_delay(delay);
      at_ = server.at();
      ready = true;
      ready.notify_one();
      loop_.run();
      objects_ = server.objects();
    });
    ready.wait(false);
  }
  ~Toy() { stop(); }
  // Files and folders that were left.
  std::size_t stop() {
    if (thread_.joinable()) {
      loop_.stop();
      thread_.join();
    }
    return objects_;
  }
  rpc::Endpoint at() const { return at_; }

 private:
  rpc::EpollLoop loop_;
  std::thread thread_;
  rpc::Endpoint at_;
  std::size_t objects_ = 0;
};

constexpr std::string_view kMix = R"(
name = "all"
[operations]
lookup = 20
missing = 10
access = 5
getattr = 10
setattr = 5
read = 20
write = 20
append = 5
commit = 10
create = 5
remove = 5
rename = 3
readlink = 5
readdir = 5
readdirplus = 5
fsstat = 2
[files]
sizes = { 1KiB = 1, 20KiB = 1, 100KiB = 1 }
least = 40
per_directory = 10
links_per_directory = 2
)";

Job job_for(const Toy& toy, Transport transport = Transport::kTcp) {
  return {.target = {.server = toy.at(),
                     .path = "/toy",
                     .mount_port = toy.at().port,
                     .transport = transport,
                     .patience = 5},
          .mix = std::string(kMix),
          .clients = 2,
          .seed = 1,
          .folder = "test"};
}

std::string all_texts(const Tally& tally) {
  std::string all;
  for (const std::string& each : tally.texts) all += each + "\n";
  return all;
}

// What a short run finds; also what was found while the files were made. It is run again until it has found
// `sought`, as a slow machine may not come to it at once.
Tally run_against(const Toy& toy, Transport transport = Transport::kTcp, std::string_view sought = {}) {
  constexpr double kRate = 1500;
  Worker worker;
  const Job job = job_for(toy, transport);
  Tally found;
  auto prepared = worker.prepare(job);
  EXPECT_TRUE(prepared) << prepared.error().message;
  if (!prepared) return found;
  auto grown = worker.grow(kRate);  // lies may be noticed here already
  int runs = 0;
  do {
    auto tally = worker.run(kRate, 0.1, 0.5);
    EXPECT_TRUE(tally);
    if (!grown) tally->texts.push_back(grown.error().message);
    found = std::move(*tally);
  } while (++runs < 20 && all_texts(found).find(sought) == std::string::npos);
  auto cleaned = worker.clean();
  return found;
}

TEST(Worker, FindsNothingWrongWithARightServer) {
  for (Transport transport : {Transport::kTcp, Transport::kUdp}) {
    Toy toy(Lie::kNone);
    const Tally tally = run_against(toy, transport);
    EXPECT_EQ(tally.violations, 0u) << all_texts(tally);
    EXPECT_EQ(tally.failed, 0u) << all_texts(tally);
    EXPECT_GT(tally.completed(), 200u);  // of about 750, on however slow a machine
    EXPECT_LT(tally.completed(), 1000u);
    for (auto each : {nfs3::Procedure::kLookup, nfs3::Procedure::kRead, nfs3::Procedure::kWrite,
                      nfs3::Procedure::kCommit, nfs3::Procedure::kRemove, nfs3::Procedure::kRename,
                      nfs3::Procedure::kReaddir, nfs3::Procedure::kReaddirplus, nfs3::Procedure::kFsstat}) {
      EXPECT_GT(tally.operations[static_cast<std::size_t>(each)].latency.count(), 0u)
          << static_cast<int>(each);
    }
    EXPECT_EQ(toy.stop(), 0u);  // all was taken away
  }
}

TEST(Worker, LostUnstableBytesAreWrittenAgain) {
  Toy toy(Lie::kRestart);
  const Tally tally = run_against(toy);
  EXPECT_EQ(tally.violations, 0u) << all_texts(tally);
  EXPECT_GT(tally.rewritten, 0u);
}

struct Case {
  Lie lie;
  const char* text;
};
class Lying : public ::testing::TestWithParam<Case> {};

TEST_P(Lying, IsNoticed) {
  Toy toy(GetParam().lie);
  const Tally tally = run_against(toy, Transport::kTcp, GetParam().text);
  EXPECT_GT(tally.violations, 0u);
  EXPECT_THAT(all_texts(tally), HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Lying,
    ::testing::Values(Case{Lie::kWrongByte, "gives a wrong byte"}, Case{Lie::kWrongSize, "shows size"},
                      Case{Lie::kLostName, "does not list"}, Case{Lie::kDoubleName, "twice"},
                      Case{Lie::kFoundName, "finds a name that is not there"},
                      Case{Lie::kMissingName, "NFS3ERR_NOENT"}, Case{Lie::kLostWrite, "wrong byte"},
                      Case{Lie::kForgottenRemove, "which is not there"}, Case{Lie::kWrongLink, "which is 'd"},
                      Case{Lie::kWrongEof, "not the end"}, Case{Lie::kWrongBefore, "before it"},
                      Case{Lie::kGarbage, "malformed"}));

// The server takes 50 ms for each call and only two may be under way: 40 operations a second of the 200 that
// are due. Operations that had to wait are measured from when they were due.
TEST(Worker, LatencyCountsFromWhenAnOperationWasDue) {
  Toy toy(Lie::kNone, std::chrono::milliseconds(50));
  Worker worker;
  Job job = job_for(toy);
  job.clients = 1;
  job.outstanding = 2;
  job.mix = "name = \"getattr\"\n[operations]\ngetattr = 1\n[files]\nsizes = { 1KiB = 1 }\nleast = 4\n";
  ASSERT_TRUE(worker.prepare(job));
  ASSERT_TRUE(worker.grow(200));
  auto tally = worker.run(200, 0, 1);
  ASSERT_TRUE(tally);
  EXPECT_LE(tally->completed(), 42u);
  EXPECT_GT(tally->completed(), 15u);
  EXPECT_GT(tally->not_sent, 100u);
  EXPECT_NEAR(static_cast<double>(tally->latency().count()), 200, 60);  // none is left out
  EXPECT_GT(tally->latency().quantile(0.5), 300'000'000u);              // not 50 ms
  ASSERT_TRUE(worker.clean());
}

// At long intervals, too: the loop's timers for what is far away come in steps of 50 ms.
TEST(Worker, OperationsBeginWhenTheyAreDue) {
  Toy toy(Lie::kNone);
  Worker worker;
  Job job = job_for(toy);
  job.clients = 1;
  job.mix = "name = \"getattr\"\n[operations]\ngetattr = 1\n[files]\nsizes = { 1KiB = 1 }\nleast = 4\n";
  ASSERT_TRUE(worker.prepare(job));
  ASSERT_TRUE(worker.grow(4));
  auto tally = worker.run(4, 0, 4);
  ASSERT_TRUE(tally);
  EXPECT_GT(tally->completed(), 5u);
  EXPECT_LT(tally->latency().quantile(0.75), 15'000'000u) << "nanoseconds, of a server that answers at once";
  ASSERT_TRUE(worker.clean());
}

// A worker's end of a stream, served on a thread; what it answers to a line.
class Served {
 public:
  Served() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    lines_.emplace(ends[0]);
    thread_ = std::thread([fd = ends[1]] { serve_controller(fd); });
  }
  ~Served() { hang_up(); }
  std::string answer(const std::string& line) {
    EXPECT_TRUE(lines_->write(line));
    auto answer = lines_->read();
    return answer && *answer ? **answer : std::string();
  }
  void hang_up() {
    lines_.reset();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::optional<Lines> lines_;
  std::thread thread_;
};

TEST(Worker, AnswersNonsenseWithAnError) {
  Served worker;
  for (const char* line :
       {"", "{", "[]", "{}", "{\"do\":1}", "{\"do\":\"dance\"}", "{\"do\":\"prepare\"}",
        "{\"do\":\"prepare\",\"job\":{}}", "{\"do\":\"run\",\"rate\":1,\"warm_up\":0,\"interval\":1}",
        "{\"do\":\"grow\",\"rate\":1}", "{\"do\":\"grow\"}"}) {
    EXPECT_THAT(worker.answer(line), HasSubstr("\"ok\":false")) << line;
  }
}

TEST(Worker, CleansUpAfterAControllerThatHangsUp) {
  Toy toy(Lie::kNone);
  Served worker;
  EXPECT_THAT(worker.answer(to_line(job_for(toy))), HasSubstr("\"ok\":true"));
  EXPECT_THAT(worker.answer("{\"do\":\"grow\",\"rate\":100}"), HasSubstr("\"files\":"));
  EXPECT_THAT(worker.answer("{\"do\":\"run\",\"rate\":100,\"warm_up\":0,\"interval\":0.2}"),
              HasSubstr("\"violations\":0"));
  worker.hang_up();
  EXPECT_EQ(toy.stop(), 0u);
}

TEST(Worker, SaysWhatCannotBeMounted) {
  Toy toy(Lie::kNone);
  Worker worker;
  Job job = job_for(toy);
  job.target.path = "/other";
  auto prepared = worker.prepare(job);
  ASSERT_FALSE(prepared);
  EXPECT_THAT(prepared.error().message, HasSubstr("/other"));
}

}  // namespace
}  // namespace slice::load
