// ReadCall: a READ, of one server or of one a piece, joined.
#ifndef SLICE_PROXY_CALLS_READ_CALL_H
#define SLICE_PROXY_CALLS_READ_CALL_H

#include <memory>
#include <vector>

#include "proxy/calls/split.h"

namespace slice::proxy {

class ReadCall : public Call {
 public:
  // Starts at once. The range crosses at least no boundary or some: one piece or more.
  ReadCall(Services& services, Client& client, CallFacts facts);
  void start();

 private:
  struct Progress {
    BufferChain data;
    std::uint32_t count = 0;
    bool eof = false;
  };
  void send(std::size_t index, std::uint64_t offset, std::uint32_t count);
  void on_reply(Leg& leg, const BufferChain& reply) override;
  std::string waits_for() const override { return unfinished(pieces_); }
  RecordHandler::Take on_reply_head(Leg& leg, ByteView head, std::size_t total) override;
  void on_reply_piece(Leg& leg, const BufferRef& piece) override;
  void on_reply_end(Leg& leg) override;
  void on_reply_broken(Leg& leg) override;
  void on_single(const BufferChain& reply);
  void on_rest(const BufferChain& reply);
  void on_piece_reply(std::size_t index, const BufferChain& reply);
  void join();

  std::vector<std::unique_ptr<Piece>> pieces_;
  std::vector<Progress> progress_;
  std::size_t left_ = 0;
  std::uint8_t fattr_[SLICE_FATTR_BYTES];
  bool has_fattr_ = false;
  nfs3::Status failed_status_ = nfs3::Status::kOk;
  std::size_t failed_at_ = SIZE_MAX;
  // A reply given to the client piece by piece.
  OutQueue::StreamId stream_ = 0;
  std::size_t skip_ = 0;       // bytes of the server's header still to come
  std::size_t forwarded_ = 0;  // bytes of data and padding given to the client
  std::uint32_t announced_ = 0;
  bool resumed_ = false;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_READ_CALL_H
