// LateWrites: a server's last WRITEs, and what they were answered. One that comes again, by a retransmission
// or from a proxy that did not know whether the first copy came, would undo what was written since: it gets
// the same answer instead. Known by client, xid, caller (another user of the same host may not write what
// this one may) and the begin of the arguments.
//
// That is on the path of every WRITE, so it is flat: a ring of the last kCalls, found by a hash whose chains
// lead from the newest to the oldest and end where the ring has been written anew. There is room for more
// than a server carries out while copies of one call may still be under way, so nobody needs a share of his
// own. One loop.
#ifndef SLICE_SERVICE_LATE_WRITES_H
#define SLICE_SERVICE_LATE_WRITES_H

#include <array>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/ids.h"
#include "common/loop.h"
#include "common/task.h"
#include "rpc/endpoint.h"
#include "service/zeroed_pages.h"
#include "wire/moves.h"
#include "wire/nfs_status.h"

namespace slice::rpc {
struct Call;
}  // namespace slice::rpc

namespace slice::service {

class LateWrites {
 public:
  static constexpr std::uint32_t kCalls = 1 << 18;    // answered ones that are known again
  static constexpr std::uint32_t kReplies = 1 << 14;  // of the last ones: with the whole answer
  // A client may begin again with the numbers that it had, e.g. after it was switched off.
  static constexpr Duration kLife = std::chrono::minutes(2);

  struct Key {
    rpc::Endpoint client;
    Xid xid;
    std::uint64_t fingerprint = 0;  // of caller and arguments, but for the handle's hint
    bool operator==(const Key&) const = default;
  };
  struct Seen {
    // kUnderWay: here, and came by the same way, so that whoever sent it sends it again. kPassedOn: it is
    // under way here, and this copy was passed on by another server, which waits for an answer. kComesBack:
    // the same, but this server has passed it on, too, and may wait for that one.
    enum class State { kNew, kUnderWay, kPassedOn, kComesBack, kAnswered } state = State::kNew;
    nfs3::Status status = nfs3::Status::kOk;  // kAnswered: with this
    std::string_view reply;     // kAnswered, kOk: empty where it is not kept. Valid until the next end()
    Key key{};                  // for end() and forget()
    bool* passed_on = nullptr;  // kNew: to be set before it is passed on; valid until end() or forget()
  };
  explicit LateWrites(const Loop& loop);
  // kNew: the caller runs it now, and must end with end() or forget().
  Seen begin(const rpc::Call& call);
  // Answered with this status and, where it is kOk, these results. After a failure, too, it may not have an
  // effect any more: the client may have tried again with another call.
  // `site`: of the first byte.
  void end(const Key& key, nfs3::Status status, std::string_view results, std::uint32_t site = 0);
  // Those of the last kReplies that are of these sites, in the order of their answers.
  std::vector<wire::LateWrite> of(const std::vector<std::uint32_t>& sites) const;
  // As another server has told of one of its own.
  void learn(const wire::LateWrite& write);
  // Not answered: it may run again.
  void forget(const Key& key);
  // Of one that is under way: ends with end() or forget(). Then begin() says what became of it.
  Task<void> over(const Key& key);

 private:
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  // Without initial values, so that no memory is touched before it is used.
  struct Answered {
    std::uint64_t fingerprint;
    std::uint64_t address_high, address_low;
    std::uint32_t xid;
    std::uint16_t port;
    std::uint16_t status;   // nfs3::Status
    std::uint32_t seconds;  // of the loop's clock
    std::uint32_t older;    // the turn of the one before it of the same hash
    std::uint32_t site;
    rpc::Endpoint client() const { return {IpAddress::of_words(address_high, address_low), port}; }
    bool is(const Key& key) const;
  };
  struct Reply {
    static constexpr std::size_t kMost = 140;  // WRITE3resok with all attributes has 136
    std::uint8_t size;                         // 0: it was longer
    std::array<char, kMost> bytes;
  };
  std::uint32_t now() const;
  std::uint32_t find(const Key& key) const;     // its turn; 0: there is none
  std::uint32_t& newest(const Key& key) const;  // of those of its hash

  struct UnderWay {
    unsigned relays = 0;  // how often it was passed on before it came here
    bool passed_on = false;
    std::vector<OneShot<bool>> waiters;  // in over()
  };
  // It is not under way any more; who waited is told by the caller.
  std::vector<OneShot<bool>> take(const Key& key);

  const Loop& loop_;
  std::unordered_map<Key, UnderWay, KeyHash> under_way_;
  // Answered ones, by turn modulo their number.
  std::uint32_t turn_ = 0;  // of the last one; the first one's is 1
  std::unique_ptr<Answered[]> answered_ = std::make_unique_for_overwrite<Answered[]>(kCalls);
  std::unique_ptr<Reply[]> replies_ = std::make_unique_for_overwrite<Reply[]>(kReplies);
  const ZeroedPages newest_;  // by hash: the turn of the last one of it
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_LATE_WRITES_H
