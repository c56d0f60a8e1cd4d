// WriteCall: a WRITE, to one server or to one a piece, whose answers are joined.
#ifndef SLICE_PROXY_CALLS_WRITE_CALL_H
#define SLICE_PROXY_CALLS_WRITE_CALL_H

#include <memory>
#include <vector>

#include "proxy/calls/split.h"

namespace slice::proxy {

class WriteCall : public Call {
 public:
  WriteCall(Services& services, Client& client, CallFacts facts);
  // `data_at`: where the data begins in the record. `without_data`: it has none, whatever its count: it makes
  // a hole (storagenode/ops/write.cc), or is of no bytes.
  void start(std::size_t data_at, bool without_data);
  void on_request_piece(const BufferRef& piece) override;

 private:
  struct Progress {
    BufferChain data;
    WriteReply reply;
    std::uint32_t status = 0;
    bool failed = false;
    unsigned refusals = 0;
  };
  // Before the data, of which a piece has so much.
  Buffer arguments_of(const Piece& piece) const;
  std::uint32_t data_of(const Piece& piece) const { return without_data_ ? 0 : piece.count; }
  void take(BufferRef piece);
  void advance();
  void send(std::size_t index);
  void on_reply(Leg& leg, const BufferChain& reply) override;
  std::string waits_for() const override {
    return current_ < pieces_.size() ? "its own bytes" : unfinished(pieces_);
  }
  SiteId coordinator() const;
  std::optional<rpc::LayoutStamp> wanted_stamp(const BufferChain& reply) const;
  void send_again(std::size_t index);
  void join();

  std::vector<std::unique_ptr<Piece>> pieces_;
  std::vector<Progress> progress_;
  std::size_t skip_ = 0;     // bytes before the data still to come
  std::size_t current_ = 0;  // piece that is being filled
  std::size_t left_ = 0;
  bool without_data_ = false;
  std::uint64_t hint_ = 0;
  std::uint8_t fattr_[SLICE_FATTR_BYTES];
  bool has_fattr_ = false;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_WRITE_CALL_H
