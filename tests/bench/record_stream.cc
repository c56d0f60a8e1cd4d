#include "tests/bench/record_stream.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "rpc/call.h"
#include "rpc/record.h"
#include "tests/cluster/client/nfs_connection.h"
#include "wire/nfs3.h"

namespace slice::client {
namespace {

constexpr std::size_t kXidAt = rpc::kRecordMark;
constexpr std::size_t kReadOffsetFromEnd = 12, kWriteOffsetFromEnd = 20;  // where the calls have their offset
constexpr std::size_t kMostBesideData = 1024;                             // of an answer

// A call as it is sent, with its record mark; `more` bytes of data follow it.
template <class Args>
Buffer encoded(nfs3::Procedure procedure, const Args& args, std::size_t more) {
  rpc::XdrWriter arguments;
  nfs3::encode_arguments(arguments, args);
  rpc::Request request{.program = nfs3::kProgram,
                       .version = nfs3::kVersion,
                       .procedure = static_cast<std::uint32_t>(procedure),
                       .arguments = arguments.take(),
                       .credential = rpc::AuthSys{.machine_name = "bench", .uid = 0, .gid = 0}};
  Buffer call = rpc::encode_request(request, Xid{0}, {}, rpc::kRecordMark);
  store_be(call.data(),
           static_cast<std::uint32_t>(call.size() - rpc::kRecordMark + more) | rpc::kLastFragment);
  return call;
}

void send_whole(int fd, ByteView head, ByteView data) {
  while (!head.empty() || !data.empty()) {
    iovec pieces[2] = {{const_cast<std::uint8_t*>(head.data()), head.size()},
                       {const_cast<std::uint8_t*>(data.data()), data.size()}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw RpcError("the connection broke while sending");
    const std::size_t of_head = std::min(static_cast<std::size_t>(n), head.size());
    head = head.subspan(of_head);
    data = data.subspan(static_cast<std::size_t>(n) - of_head);
  }
}

template <class Result>
Result results_of(ByteView results, const char* what) {
  rpc::XdrReader in(results);
  nfs3::Status status = nfs3::Status::kOk;
  Result result;
  if (!nfs3::decode_result(in, status, result)) throw RpcError(std::string(what) + ": results do not decode");
  if (status != nfs3::Status::kOk) {
    throw RpcError(std::string(what) + " answers " + std::string(nfs3::status_name(status)));
  }
  return result;
}

}  // namespace

RecordStream::RecordStream(const Options& options)
    : options_(options), data_(options.record), answer_(options.record + kMostBesideData) {
  const ByteView handle = as_bytes(options_.handle);
  read_call_ = encoded(nfs3::Procedure::kRead, nfs3::ReadArgs{.file = handle, .count = options_.record}, 0);
  write_call_ = encoded(nfs3::Procedure::kWrite, nfs3::WriteArgs{.file = handle}, options_.record);
  std::uint8_t* end = write_call_.data() + write_call_.size();
  store_be(end - 12, options_.record);  // count
  store_be(end - 4, options_.record);   // length of the data, which follows
  for (std::size_t i = 0; i < data_.size(); ++i)
    data_.data()[i] = static_cast<std::uint8_t>(i * 131 + i / 977);

  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::geteuid() == 0) ::bindresvport(socket_, nullptr);  // as kernels do: "secure" exports take no other
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options_.port);
  if (::inet_pton(AF_INET, options_.server.c_str(), &address.sin_addr) != 1 ||
      ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw RpcError("cannot connect to " + options_.server);
  }
}

RecordStream::~RecordStream() {
  if (socket_ >= 0) ::close(socket_);
}

void RecordStream::send(Buffer& call, std::size_t offset_at, std::uint32_t number, ByteView data) {
  store_be(call.data() + kXidAt, number);
  store_be(call.data() + offset_at, options_.first + std::uint64_t{number} * options_.record);
  send_whole(socket_, call.view(), data);
}

void RecordStream::receive_whole(ByteSpan into) {
  while (!into.empty()) {
    const ssize_t n = ::recv(socket_, into.data(), into.size(), MSG_WAITALL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw RpcError("the connection broke while receiving");
    into = into.subspan(static_cast<std::size_t>(n));
  }
}

ByteView RecordStream::receive(std::uint32_t& xid) {
  std::uint8_t mark[rpc::kRecordMark];
  receive_whole(mark);
  const std::uint32_t word = load_be<std::uint32_t>(mark), size = word & ~rpc::kLastFragment;
  if ((word & rpc::kLastFragment) == 0 || size > answer_.size())
    throw RpcError("an answer of an unknown form");
  receive_whole(answer_.span().first(size));
  const auto reply = rpc::decode_reply(answer_.view().first(size));
  if (!reply || !reply->accepted || reply->accept_stat != rpc::AcceptStat::kSuccess) {
    throw RpcError("a call was refused");
  }
  xid = reply->xid.value;
  return reply->results;
}

template <class Send, class Check>
void RecordStream::pass(const std::vector<std::uint32_t>& numbers, Send send_one, Check check) {
  std::size_t sent = 0;
  for (std::size_t answered = 0; answered < numbers.size(); ++answered) {
    while (sent < numbers.size() && sent - answered < options_.outstanding) send_one(numbers[sent++]);
    std::uint32_t number = 0;
    const ByteView results = receive(number);
    check(number, results);
  }
}

void RecordStream::write(const std::vector<std::uint32_t>& numbers) {
  pass(
      numbers,
      [this](std::uint32_t number) {
        store_be(data_.data(), number);
        store_be(data_.data() + data_.size() - sizeof number, number);
        send(write_call_, write_call_.size() - kWriteOffsetFromEnd, number, data_.view());
      },
      [this](std::uint32_t, ByteView results) {
        if (results_of<nfs3::WriteOk>(results, "WRITE").count != options_.record)
          throw RpcError("WRITE was short");
      });
}

void RecordStream::read(const std::vector<std::uint32_t>& numbers) {
  pass(
      numbers,
      [this](std::uint32_t number) { send(read_call_, read_call_.size() - kReadOffsetFromEnd, number, {}); },
      [this](std::uint32_t number, ByteView results) {
        const ByteView data = results_of<nfs3::ReadOk>(results, "READ").data;
        if (data.size() != options_.record) throw RpcError("READ was short");
        if (load_be<std::uint32_t>(data.data()) != number ||
            load_be<std::uint32_t>(data.data() + data.size() - sizeof number) != number) {
          throw RpcError("READ answers another record's bytes");
        }
      });
}

}  // namespace slice::client
