// Workers on threads of their own, as slice-proxyd has them: what they share is the tables, the attribute
// cache, the cache of block maps and the counters. Runs under ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "proxy/testing/toy_ensemble.h"
#include "rpc/message.h"

namespace slice::proxy::testing {
namespace {

constexpr std::size_t kWorkers = 3;
constexpr std::uint64_t kFiles = 6, kFirstFile = 42;
constexpr std::uint64_t kFileSize = 320 << 10;
constexpr std::uint32_t kPart = 80 << 10;  // of a file, written or read by one call: over boundaries
constexpr std::uint32_t kRounds = 12;

// A worker on its thread, and a client of it on the servers' loop.
class Thread {
 public:
  Thread(ToyEnsemble& ensemble, AttributeCache& cache, MapCache& maps)
      : worker_(loop_, &ensemble.keys, options(ensemble), cache, maps, ensemble.metrics) {
    auto bound = worker_.listen_tcp({0x7f000001, 0});
    EXPECT_TRUE(bound);
    client = std::make_unique<WireClient>(ensemble.loop, *bound);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Thread() {
    loop_.stop();
    thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  std::unique_ptr<WireClient> client;

 private:
  static Worker::Options options(ToyEnsemble& ensemble) {
    Worker::Options options;
    options.tables = ensemble.memory.tables();
    options.sender = {99, options.tables.config};
    options.config = &ensemble.config;
    options.settings = &*ensemble.settings;
    options.limits = toy_limits();
    return options;
  }

  rpc::EpollLoop loop_;
  SocketWorker worker_;
  std::thread thread_;
};

ByteView results_of(const Buffer& reply) {
  auto header = rpc::decode_reply(reply.view());
  EXPECT_TRUE(header && header->accepted);
  return header ? header->results : ByteView{};
}

bool is_to_be_asked_later(ByteView results) {
  return results.size() >= 4 &&
         load_be<std::uint32_t>(results.data()) == static_cast<std::uint32_t>(nfs3::Status::kJukebox);
}

template <typename Ok>
Ok ok_of(ByteView results) {
  rpc::XdrReader in(results);
  nfs3::Status status = nfs3::Status::kServerFault;
  Ok ok;
  EXPECT_TRUE(nfs3::decode_result(in, status, ok));
  EXPECT_EQ(status, nfs3::Status::kOk);
  return ok;
}

class Threads : public ::testing::Test {
 protected:
  explicit Threads(std::uint8_t handle_flags = 0) : ensemble({.handle_flags = handle_flags}) {
    for (std::size_t i = 0; i < kWorkers; ++i) {
      threads.push_back(std::make_unique<Thread>(ensemble, cache, maps));
    }
  }

  WireClient& client(std::uint64_t number) { return *threads[number % kWorkers]->client; }

  // Sends what `call` makes of each number to the client that `who` names, all at once, and looks at the
  // replies in their order. A WRITE that neither cache nor authority knows of is to be sent again
  // (reply_patch.h), which a client does; on a slow machine it may come to that, seldom.
  void each_at_once(std::uint64_t numbers, auto who, auto call, auto check) {
    constexpr unsigned kTries = 10;
    std::vector<std::uint64_t> wanted(numbers), later;
    std::iota(wanted.begin(), wanted.end(), 0);
    for (unsigned tries = 1; !wanted.empty(); ++tries, wanted = std::exchange(later, {})) {
      std::map<std::uint32_t, std::uint64_t> asked;
      for (auto& thread : threads) thread->client->replies.clear();
      for (std::uint64_t i : wanted) {
        Xid xid{++last_xid_};
        asked[xid.value] = i;
        client(who(i)).send_record(call(i, xid).view());
      }
      std::size_t answered = 0;
      ASSERT_TRUE(ensemble.run_until([&] {
        answered = 0;
        for (auto& thread : threads) answered += thread->client->replies.size();
        return answered == wanted.size();
      })) << answered;
      for (auto& thread : threads) {
        for (const Buffer& reply : thread->client->replies) {
          Xid xid{load_be<std::uint32_t>(reply.view().data())};
          ASSERT_TRUE(asked.contains(xid.value));
          const ByteView results = results_of(reply);
          if (tries < kTries && is_to_be_asked_later(results)) {
            later.push_back(asked[xid.value]);
          } else {
            check(asked[xid.value], results);
          }
        }
      }
      EXPECT_LE(later.size() * 4, numbers);
    }
  }

  void write_all(std::uint32_t round) {
    constexpr std::uint64_t kParts = kFileSize / kPart;
    each_at_once(
        kFiles * kParts, [&](std::uint64_t i) { return i + round; },
        [&](std::uint64_t i, Xid xid) {
          auto data = pattern(kPart, static_cast<std::uint32_t>(i + 100 * round));
          return ensemble.write_call(xid, kFirstFile + i / kParts, i % kParts * kPart, data);
        },
        [&](std::uint64_t, ByteView results) { EXPECT_EQ(ok_of<nfs3::WriteOk>(results).count, kPart); });
  }

  // By other workers than those that wrote it; between the READs, GETATTRs.
  void read_all(std::uint32_t round) {
    constexpr std::uint64_t kParts = kFileSize / kPart;
    each_at_once(
        kFiles * kParts, [&](std::uint64_t i) { return i + round + 1; },
        [&](std::uint64_t i, Xid xid) {
          return ensemble.read_call(xid, kFirstFile + i / kParts, i % kParts * kPart, kPart);
        },
        [&](std::uint64_t i, ByteView results) {
          auto ok = ok_of<nfs3::ReadOk>(results);
          auto data = pattern(kPart, static_cast<std::uint32_t>(i + 100 * round));
          EXPECT_TRUE(std::equal(data.begin(), data.end(), ok.data.begin(), ok.data.end()));
        });
  }

  void look_at_all(std::uint64_t size) {
    each_at_once(
        kFiles * kWorkers, [](std::uint64_t i) { return i; },
        [&](std::uint64_t i, Xid xid) { return ensemble.getattr_call(xid, kFirstFile + i / kWorkers); },
        [&](std::uint64_t, ByteView results) {
          EXPECT_EQ(ok_of<nfs3::GetattrOk>(results).attributes.size, size);
        });
  }

  ToyEnsemble ensemble;
  AttributeCache cache{ensemble.memory.tables().attributes, ensemble.memory.tables().config, ensemble.metrics,
                       [](const slice_eviction&) {}};
  // No map is ever had, so each is asked for again and again.
  std::atomic<std::uint64_t> asked_for{0};
  MapCache maps{[this](const routing::HandleBytes&, FileId file, std::uint64_t stripe) {
                  ++asked_for;
                  ensemble.loop.post_from_any_thread([this, file, stripe] {
                    maps.failed(file, wire::piece_of(stripe), ensemble.loop.now());
                  });
                },
                ensemble.metrics};
  std::vector<std::unique_ptr<Thread>> threads;

 private:
  std::uint32_t last_xid_ = 0;
};

class ThreadsBlockMapped : public Threads {
 protected:
  ThreadsBlockMapped() : Threads(SLICE_HANDLE_BLOCK_MAPPED) {}
};

TEST_F(Threads, WhatOneWroteAnotherReads) {
  look_at_all(0);
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    write_all(round);
    look_at_all(kFileSize);
    read_all(round);
  }
}

// The control thread follows the manager: every entry becomes another word, which leads where it led.
TEST_F(Threads, SitesAreBoundAnewMeanwhile) {
  std::atomic<std::uint32_t> bound = 0;
  std::jthread control([&](const std::stop_token& stop) {
    wire::Tables tables = ensemble.tables->wire();
    for (; !stop.stop_requested(); ++bound) {
      ++tables.generation.value;
      EXPECT_EQ(bind_sites(tables, ensemble.memory.tables()), 0u);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    write_all(round);
    read_all(round);
  }
  EXPECT_GT(bound, kRounds);
}

TEST_F(ThreadsBlockMapped, WhatOneWroteAnotherReads) {
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    write_all(round);
    read_all(round);
  }
  EXPECT_GT(asked_for, 0u);
}

}  // namespace
}  // namespace slice::proxy::testing
