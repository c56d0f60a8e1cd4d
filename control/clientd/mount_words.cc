#include "control/clientd/mount_words.h"

#include <algorithm>
#include <array>

namespace slice::clientd {
namespace {

struct Refused {
  std::string_view option, why;
};
// By name; of those with a value whatever it is.
constexpr std::array kRefused{
    Refused{"lock", "there are no locks over the network: locks hold among programs of this host"},
    Refused{"udp", "the proxy on this host is reached by TCP: leave it off"},
    Refused{"noresvport", "the proxy on this host serves reserved ports alone: leave it off"},
    Refused{"addr", "it is the proxy's on this host: leave it off"},
    Refused{"mountaddr", "it is the virtual server's: leave it off"},
    Refused{"mounthost", "it is the virtual server: leave it off"},
    Refused{"xprtsec", "the proxy on this host speaks to servers in clear: mount with -t nfs"},
};
// What such a mount has anyway.
constexpr std::array<std::string_view, 6> kImplied{"nolock", "tcp",       "resvport",
                                                   "vers=3", "nfsvers=3", "xprtsec=none"};

std::string_view name_of(std::string_view option) {
  return option.substr(0, option.find('='));
}
std::string_view value_of(std::string_view option) {
  const std::size_t at = option.find('=');
  return at == std::string_view::npos ? std::string_view{} : option.substr(at + 1);
}

Status take_option(std::string_view option, MountWords& out) {
  const std::string_view name = name_of(option), value = value_of(option);
  if (option.empty() || std::ranges::find(kImplied, option) != kImplied.end()) return {};
  const auto* refused = std::ranges::find(kRefused, name, &Refused::option);
  if (refused != kRefused.end()) return fail(Errc::kInvalid, "{}: {}", option, refused->why);
  if (name == "vers" || name == "nfsvers")
    return fail(Errc::kInvalid, "{}: the volume is served by NFSv3", option);
  if (name == "proto" || name == "mountproto") {
    if (value != "tcp" && value != "tcp6")
      return fail(Errc::kInvalid, "{}: only tcp and tcp6 can be had", option);
    const bool v6 = value == "tcp6";
    if (out.v6.value_or(v6) != v6)
      return fail(Errc::kInvalid, "{}: another option wants the other family", option);
    out.v6 = v6;
    return {};
  }
  if (name == "port" || name == "mountport") {
    const auto port = parse_port(value);
    if (!port) return fail(Errc::kInvalid, "{}: no port", option);
    (name == "port" ? out.server.port : out.server.mount_port) = *port;
    return {};
  }
  out.options.emplace_back(option);
  return {};
}

Status take_options(std::string_view options, MountWords& out) {
  while (!options.empty()) {
    const std::size_t comma = std::min(options.find(','), options.size());
    SLICE_RETURN_IF_ERROR(take_option(options.substr(0, comma), out));
    options.remove_prefix(std::min(comma + 1, options.size()));
  }
  return {};
}

// An address of IPv6 is in brackets.
Status take_source(std::string_view source, MountWords& out) {
  const bool bracketed = source.starts_with('[');
  const std::size_t end = source.find(bracketed ? "]:/" : ":/");
  if (end == std::string_view::npos || end == (bracketed ? 1u : 0u) ||
      (!bracketed && end != source.find(':')))
    return fail(Errc::kInvalid, "{}: what is mounted is written as SERVER:/PATH, or [ADDRESS]:/PATH by IPv6",
                source);
  out.host = bracketed ? source.substr(1, end - 1) : source.substr(0, end);
  out.path = source.substr(end + (bracketed ? 2 : 1));
  return {};
}

}  // namespace

Result<MountWords> parse_mount(std::span<const std::string> words) {
  MountWords out;
  std::vector<std::string_view> places;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "-o" || word == "-t") {
      if (++i == words.size()) return fail(Errc::kInvalid, "{} lacks its value", word);
      if (word == "-o") SLICE_RETURN_IF_ERROR(take_options(words[i], out));
    } else if (word.starts_with("-o")) {
      SLICE_RETURN_IF_ERROR(take_options(word.substr(2), out));
    } else if (word.size() > 1 && word[0] == '-') {
      if (word.find_first_not_of("fnrsvw", 1) != std::string_view::npos)
        return fail(Errc::kInvalid, "{}: no such flag", word);
      out.flags.emplace_back(word);
    } else {
      places.push_back(word);
    }
  }
  if (places.size() != 2)
    return fail(Errc::kInvalid, "usage: mount.slice SERVER:/PATH FOLDER [-rvnsfw] [-o OPTIONS]");
  SLICE_RETURN_IF_ERROR(take_source(places[0], out));
  out.folder = places[1];
  return out;
}

// Without a helper for NFS (-i), which would look for the server itself: the kernel asks MOUNT of the virtual
// server, and the proxy for all else.
std::vector<std::string> mount_command(const MountWords& words, std::uint16_t port) {
  const bool v4 = words.server.address.is_v4();
  std::string options = fmt::format(
      "vers=3,proto=tcp,nolock,addr=127.0.0.1,port={},mountvers=3,mountproto={},mountaddr={},mountport={}",
      port, v4 ? "tcp" : "tcp6", address_text(words.server.address), words.server.mount_port);
  for (const std::string& option : words.options) options += "," + option;
  std::vector<std::string> command{"mount", "-i", "-t", "nfs"};
  command.insert(command.end(), words.flags.begin(), words.flags.end());
  const bool bracketed = words.host.find(':') != std::string::npos;
  const std::string source = bracketed ? fmt::format("[{}]:{}", words.host, words.path)
                                       : fmt::format("{}:{}", words.host, words.path);
  command.insert(command.end(), {"-o", options, source, words.folder});
  return command;
}

}  // namespace slice::clientd
