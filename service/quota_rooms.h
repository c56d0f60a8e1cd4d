// QuotaRooms: room that a data server has for bytes of files whose owner, group or tree has a quota
// (docs/quotas.md). Directory servers promise it, ahead of what is needed, so that not every write asks; what
// was taken in counts as held until the file's directory server was told of it. One loop.
#ifndef SLICE_SERVICE_QUOTA_ROOMS_H
#define SLICE_SERVICE_QUOTA_ROOMS_H

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "common/settings.h"
#include "routing/file_handle.h"
#include "service/context.h"
#include "wire/quota.h"

namespace slice::service {

// Bytes from the begin on that a file with these attributes, as its authority has them, stores for certain:
// all, where it takes as much as one without holes, else none.
std::uint64_t solid_bytes(const nfs3::Attributes& attributes);
// Bytes that a write of [offset, offset + count) makes a file take more, at the most: in whole blocks, those
// behind the bytes that it stores for certain.
std::uint64_t quota_need(std::uint64_t solid, std::uint64_t offset, std::uint64_t count);

class QuotaRooms {
 public:
  // A promise is used for so long, which is less than it counts (wire::kPromisedMs).
  static constexpr Duration kUsed = std::chrono::milliseconds(wire::kPromisedMs / 2);
  // For so long a write waits for what others were promised and may not use.
  static constexpr Duration kPatience = std::chrono::milliseconds(wire::kPromisedMs + 500),
                            kPause = std::chrono::milliseconds(100);

  // Room that a write has, until it ends.
  class [[nodiscard]] Taken {
   public:
    Taken() = default;
    Taken(QuotaRooms& rooms, QuotaOwners owners, std::uint64_t bytes)
        : rooms_(&rooms), owners_(owners), bytes_(bytes) {}
    Taken(Taken&& other) noexcept
        : rooms_(std::exchange(other.rooms_, nullptr)), owners_(other.owners_), bytes_(other.bytes_) {}
    Taken& operator=(Taken&& other) noexcept {
      std::swap(rooms_, other.rooms_);
      std::swap(owners_, other.owners_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken() {
      if (rooms_ != nullptr) rooms_->release(owners_, bytes_);
    }
    // The bytes are the file's now. To be called before the authority is told of the write.
    void stored(FileId file) {
      if (QuotaRooms* rooms = std::exchange(rooms_, nullptr)) rooms->charge(file, owners_, bytes_);
    }

   private:
    QuotaRooms* rooms_ = nullptr;
    QuotaOwners owners_;
    std::uint64_t bytes_ = 0;
  };

  // Asks the file's directory server.
  using Ask =
      std::function<Task<Result<wire::RoomResult>>(const routing::FileHandle& file, wire::RoomArgs args)>;
  // `context` outlives it.
  QuotaRooms(ServiceContext& context, Ask ask);

  // Whether anything is limited of one of them.
  bool limited(QuotaOwners owners) const;
  // Room for so many bytes. kUnavailable: the directory server does not answer. Else, without room: there is
  // none; `others`: but there may be some before long, since others have it and may not use it.
  struct Answer {
    bool there = false, others = false;
    Taken room;
  };
  Task<Result<Answer>> take(routing::FileHandle file, QuotaOwners owners, std::uint64_t bytes);

  // ---- for who tells the authority ----
  // What the file was charged with until now is being told; and was, or was not.
  void telling(FileId file);
  void told(FileId file, bool well);

 private:
  struct Budget {
    explicit Budget(Loop& loop) : asking(loop) {}
    std::uint64_t left = 0;  // promised, and not taken
    std::uint64_t held = 0;  // taken, and not told
    MonoTime until{};
    unsigned users = 0;  // calls of take() under way
    AsyncMutex asking;
  };
  struct Charge {
    QuotaOwners owners;
    std::uint64_t untold = 0, telling = 0;
  };
  class User;
  void release(QuotaOwners owners, std::uint64_t bytes);
  void charge(FileId file, QuotaOwners owners, std::uint64_t bytes);
  bool take_from(Budget& budget, std::uint64_t bytes) const;
  // Forgets it where nothing is known of it.
  void drop_if_unused(std::map<QuotaOwners, Budget>::iterator budget);

  ServiceContext& context_;
  const SettingsReader settings_;
  const Ask ask_;
  std::map<QuotaOwners, Budget> budgets_;
  std::unordered_map<FileId, Charge> charges_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_QUOTA_ROOMS_H
