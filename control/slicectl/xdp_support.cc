#include "control/slicectl/xdp_support.h"

#include <linux/bpf.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

namespace slice::slicectl {
namespace {

// linux/netdev.h, which older headers lack.
constexpr std::uint8_t kDevGet = 1;
constexpr std::uint16_t kIfindex = 1, kXdpFeatures = 3;
constexpr std::uint64_t kBasicActions = 1;

struct Message {
  nlmsghdr header;
  genlmsghdr generic;
  std::array<char, 64> attributes;
};

// One question and its answer over generic netlink.
class GenericNetlink {
 public:
  GenericNetlink() : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC)) {
    const timeval patience{.tv_sec = 1, .tv_usec = 0};
    if (socket_ >= 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~GenericNetlink() {
    if (socket_ >= 0) ::close(socket_);
  }
  GenericNetlink(const GenericNetlink&) = delete;
  GenericNetlink& operator=(const GenericNetlink&) = delete;

  // The attribute `wanted` of the answer, as bytes; nothing where there is none, or an error.
  std::optional<std::string> ask(std::uint16_t family, std::uint8_t command, std::uint16_t attribute,
                                 std::string_view value, std::uint16_t wanted) {
    Message message{};
    if (socket_ < 0 || value.size() + NLA_HDRLEN > message.attributes.size()) return std::nullopt;
    const nlattr head{.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + value.size()),
                      .nla_type = attribute};
    std::memcpy(message.attributes.data(), &head, sizeof head);
    std::memcpy(message.attributes.data() + NLA_HDRLEN, value.data(), value.size());
    message.generic = {.cmd = command, .version = 1, .reserved = 0};
    message.header = {
        .nlmsg_len = static_cast<std::uint32_t>(NLMSG_LENGTH(GENL_HDRLEN) + NLA_ALIGN(head.nla_len)),
        .nlmsg_type = family,
        .nlmsg_flags = NLM_F_REQUEST,
        .nlmsg_seq = 1,
        .nlmsg_pid = 0};
    if (::send(socket_, &message, message.header.nlmsg_len, 0) < 0) return std::nullopt;
    alignas(nlmsghdr) std::array<char, 8192> answer{};
    const ssize_t got = ::recv(socket_, answer.data(), answer.size(), 0);
    if (got < static_cast<ssize_t>(NLMSG_LENGTH(GENL_HDRLEN))) return std::nullopt;
    nlmsghdr header{};
    std::memcpy(&header, answer.data(), sizeof header);
    if (header.nlmsg_type != family || header.nlmsg_len > static_cast<std::size_t>(got)) return std::nullopt;
    return attribute_of(std::string_view(answer.data(), header.nlmsg_len).substr(NLMSG_LENGTH(GENL_HDRLEN)),
                        wanted);
  }

 private:
  static std::optional<std::string> attribute_of(std::string_view rest, std::uint16_t wanted) {
    while (rest.size() >= static_cast<std::size_t>(NLA_HDRLEN)) {
      nlattr head{};
      std::memcpy(&head, rest.data(), sizeof head);
      if (head.nla_len < NLA_HDRLEN || head.nla_len > rest.size()) return std::nullopt;
      if ((head.nla_type & NLA_TYPE_MASK) == wanted)
        return std::string(rest.substr(NLA_HDRLEN, head.nla_len - static_cast<std::size_t>(NLA_HDRLEN)));
      rest.remove_prefix(std::min<std::size_t>(NLA_ALIGN(head.nla_len), rest.size()));
    }
    return std::nullopt;
  }

  int socket_;
};

template <class Number>
std::optional<Number> as_number(const std::optional<std::string>& bytes) {
  Number number{};
  if (!bytes || bytes->size() != sizeof number) return std::nullopt;
  std::memcpy(&number, bytes->data(), sizeof number);
  return number;
}

}  // namespace

std::optional<std::string> try_to_load_xdp() {
  // r0 = XDP_PASS; exit
  const std::array<bpf_insn, 2> instructions{
      bpf_insn{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = XDP_PASS},
      bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  constexpr std::string_view kLicence = "GPL";
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_XDP;
  attributes.insn_cnt = instructions.size();
  attributes.insns = reinterpret_cast<std::uintptr_t>(instructions.data());
  attributes.license = reinterpret_cast<std::uintptr_t>(kLicence.data());
  attributes.prog_flags = BPF_F_XDP_HAS_FRAGS;
  const auto loaded = static_cast<int>(::syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes));
  if (loaded < 0) return std::string(std::strerror(errno));
  ::close(loaded);
  return std::nullopt;
}

std::map<std::string, bool> ask_native_xdp(const std::vector<std::string>& interfaces) {
  std::map<std::string, bool> native;
  GenericNetlink netlink;
  using namespace std::string_view_literals;
  const auto family = as_number<std::uint16_t>(netlink.ask(
      GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, "netdev\0"sv, CTRL_ATTR_FAMILY_ID));
  if (!family) return native;
  for (const std::string& name : interfaces) {
    const std::uint32_t index = ::if_nametoindex(name.c_str());
    if (index == 0) continue;
    const std::string_view value(reinterpret_cast<const char*>(&index), sizeof index);
    const auto features =
        as_number<std::uint64_t>(netlink.ask(*family, kDevGet, kIfindex, value, kXdpFeatures));
    if (features) native[name] = (*features & kBasicActions) != 0;
  }
  return native;
}

}  // namespace slice::slicectl
