#include "common/export_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/did_you_mean.h"

namespace slice {
namespace {

using config_internal::line_of;
using config_internal::Refusals;
using config_internal::Section;

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// What else exports(5) lets stand for clients, and what to write in its place.
Status refuse_client(std::string_view word, Error error) {
  if (word.starts_with('@')) {
    return fail(Errc::kInvalid, "'{}' is a netgroup, which nobody here looks up: name addresses or networks",
                word);
  }
  if (word.find_first_of("*?[") != std::string_view::npos) {
    return fail(
        Errc::kInvalid,
        "'{}' is a pattern of names, and whoever answers for names could let anybody in: name addresses "
        "or networks, or \"*\" for everybody",
        word);
  }
  return fail(std::move(error));
}

struct Option {
  std::string_view word;
  std::function<void(ExportConfig&)> set;  // none: it is so anyway
};
using Squash = ExportConfig::Squash;

const std::vector<Option>& options_taken() {
  static const std::vector<Option> all{
      {"rw", [](ExportConfig& out) { out.read_only = false; }},
      {"ro", [](ExportConfig& out) { out.read_only = true; }},
      {"root_squash", [](ExportConfig& out) { out.squash = Squash::kRoot; }},
      {"no_root_squash", [](ExportConfig& out) { out.squash = Squash::kNone; }},
      {"all_squash", [](ExportConfig& out) { out.squash = Squash::kAll; }},
      {"no_all_squash",
       [](ExportConfig& out) {
         if (out.squash == Squash::kAll) out.squash = Squash::kRoot;
       }},
      {"secure", [](ExportConfig& out) { out.secure = true; }},
      {"insecure", [](ExportConfig& out) { out.secure = false; }},
      {"sync", nullptr},
      {"wdelay", nullptr},
      {"no_wdelay", nullptr},
      {"hide", nullptr},
      {"nohide", nullptr},
      {"crossmnt", nullptr},
      {"no_subtree_check", nullptr},
      {"secure_locks", nullptr},
      {"auth_nlm", nullptr},
      {"no_acl", nullptr},
      {"fsid=0", nullptr},
      {"fsid=root", nullptr},
  };
  return all;
}

struct Refused {
  std::string_view word, cure;  // the word, or what it begins with where it ends with '='
};
constexpr std::array kRefused{
    Refused{"async", "what was answered is as safe as NFS promises; take the word out"},
    Refused{"subtree_check", "handles are checked by their MAC, which has the tree in it; take the word out"},
    Refused{"fsid=", "the volume has an identity of its own; take the word out"},
    Refused{"mountpoint", "there is one volume, and it is always mounted; take the word out"},
    Refused{"mp", "there is one volume, and it is always mounted; take the word out"},
    Refused{"pnfs", "there is NFSv3 alone; take the word out"},
    Refused{"security_label", "there is NFSv3 alone; take the word out"},
    Refused{"refer=", "there is NFSv3 alone; take the word out"},
    Refused{"replicas=", "there is NFSv3 alone; take the word out"},
    Refused{"insecure_locks", "who locks a file must be allowed to read or write it; take the word out"},
    Refused{"no_auth_nlm", "who locks a file must be allowed to read or write it; take the word out"},
};

Status refuse(std::string_view word) {
  for (const Refused& each : kRefused) {
    if (each.word.ends_with('=') ? word.starts_with(each.word) : word == each.word)
      return fail(Errc::kInvalid, "'{}': {}", word, each.cure);
  }
  std::vector<std::string> known{"anonuid=", "anongid=", "xprtsec=", "sec="};
  for (const Option& each : options_taken()) known.emplace_back(each.word);
  return fail(Errc::kInvalid, "'{}' is no option of exports(5){}", word, did_you_mean(word, known));
}

// As exports(5) has it: "xprtsec=tls:mtls", with these names.
template <class Set, std::size_t kCount>
Status read_names(std::string_view word, const std::array<std::string_view, kCount>& names, Set& out) {
  out = Set::none();
  for (std::string_view list = word.substr(word.find('=') + 1);;) {
    const std::size_t colon = list.find(':');
    const std::string_view name = list.substr(0, colon);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      return fail(Errc::kInvalid, "'{}': '{}' is none of {}, which have colons between", word, name,
                  fmt::join(names, ", "));
    }
    out.add_index(static_cast<std::size_t>(found - names.begin()));
    if (colon == std::string_view::npos) return {};
    list.remove_prefix(colon + 1);
  }
}

Status read_option(std::string_view word, ExportConfig& out) {
  if (word.starts_with("xprtsec=")) return read_names(word, kTransportSecurityNames, out.transports);
  if (word.starts_with("sec=")) return read_names(word, kSecurityFlavorNames, out.flavors);
  for (const auto& [prefix, id] : {std::pair{std::string_view("anonuid="), &out.anonymous_uid},
                                   std::pair{std::string_view("anongid="), &out.anonymous_gid}}) {
    if (!word.starts_with(prefix)) continue;
    const auto number = number_of(word.substr(prefix.size()));
    if (!number) return fail(Errc::kInvalid, "'{}': a number from 0 to 4294967295 is expected", word);
    *id = *number;
    return {};
  }
  const auto& all = options_taken();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Option& each) { return each.word == word; });
  if (found == all.end()) return refuse(word);
  if (found->set) found->set(out);
  return {};
}

}  // namespace

bool is_clean_path(std::string_view path) {
  if (path == "/") return true;
  if (!path.starts_with('/')) return false;
  for (std::string_view left = path; !left.empty();) {
    left.remove_prefix(1);
    const std::string_view part = left.substr(0, left.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    left.remove_prefix(part.size());
  }
  return true;
}

Status read_export_client(std::string_view word, ExportConfig& out) {
  const Result<Network> network = word == "*" ? Network{} : parse_network(word);
  if (!network) return refuse_client(word, network.error());
  out.clients = *network;
  return {};
}

Status read_export_options(std::string_view options, ExportConfig& out) {
  const std::string_view all = options;
  for (bool has_flavors = false;;) {
    const std::size_t comma = options.find(',');
    const std::string_view word = options.substr(0, comma);
    // In exports(5) what stands behind one is for its flavors alone.
    if (word.starts_with("sec=") && std::exchange(has_flavors, true))
      return fail(Errc::kInvalid, "'{}': options of each flavor's own are not kept: say sec= once", all);
    if (Status good = read_option(word, out); !good) return good;
    if (comma == std::string_view::npos) return {};
    options.remove_prefix(comma + 1);
  }
}

namespace {

// The same as keys have it.
template <class Set, std::size_t kCount>
void read_choices(Section& section, std::string_view key, const std::array<std::string_view, kCount>& names,
                  Set& out) {
  if (!section.has(key)) return;
  out = Set::none();
  for (const std::size_t each : section.choices(key, names)) out.add_index(each);
}

// Several clients are as many entries, one behind the other.
void read_export(Refusals& refusals, const toml::table& table, std::vector<ExportConfig>& out) {
  Section section(refusals, table, "[[export]]", line_of(table));
  constexpr std::array<std::string_view, 2> kAccess{"rw", "ro"};
  constexpr std::array<std::string_view, 3> kSquash{"root", "all", "none"};
  ExportConfig entry;
  entry.path = section.text("path", entry.path);
  if (!is_clean_path(entry.path) || entry.path.size() > kMaxExportPath) {
    section.refuse("path",
                   "'{}' is no path of at most {} bytes within the volume: \"/\", or as \"/home/ann\"",
                   entry.path, kMaxExportPath);
  }
  entry.read_only = section.choice("access", kAccess, 0) == 1;
  entry.squash = static_cast<ExportConfig::Squash>(section.choice("squash", kSquash, 0));
  entry.anonymous_uid = section.number32("anonymous_uid", entry.anonymous_uid);
  entry.anonymous_gid = section.number32("anonymous_gid", entry.anonymous_gid);
  entry.secure = section.boolean("secure", true);
  read_choices(section, "xprtsec", kTransportSecurityNames, entry.transports);
  read_choices(section, "sec", kSecurityFlavorNames, entry.flavors);
  if (std::string options = section.text("options", ""); section.has("options")) {
    for (const char* key :
         {"access", "squash", "anonymous_uid", "anonymous_gid", "secure", "xprtsec", "sec"}) {
      if (section.has(key)) section.refuse(key, "say it in options, or all of it in keys");
    }
    if (Status good = read_export_options(options, entry); !good)
      section.refuse("options", "{}", good.error().message);
  }
  for (const std::string& clients : section.one_or_more_texts("clients")) {
    if (Status good = read_export_client(clients, entry); !good)
      section.refuse("clients", "{}", good.error().message);
    out.push_back(entry);
  }
  section.finish();
}

// An entry that nobody could satisfy.
void check_security(Refusals& refusals, std::uint32_t line, const ExportConfig& entry,
                    const ProxyConfig& proxy) {
  if (!entry.flavors.has(SecurityFlavor::kSys) && proxy.kerberos_keytab.empty())
    refusals.add(line, "[[export]] sec: Kerberos needs [proxy] kerberos_keytab");
  const TransportSecurities& takes = entry.transports;
  const TlsConfig& tls = proxy.tls;
  if (takes.has(TransportSecurity::kNone)) return;
  if (!tls.used()) {
    refusals.add(line, "[[export]] xprtsec: TLS needs [proxy] tls_certificate and tls_key");
  } else if (!takes.has(TransportSecurity::kTls) && tls.authority.empty()) {
    refusals.add(line, "[[export]] xprtsec: clients' certificates need [proxy] tls_authority");
  }
}

// What is hardly meant: that root's rights are everybody's, or that an entry is for nobody.
void warn_of_export(std::size_t index, std::uint32_t line, EnsembleConfig& config) {
  const ExportConfig& entry = config.exports[index];
  auto warn = [&](std::string_view what) {
    config.warnings.push_back(fmt::format("{}:{}: [[export]] {}", config.path, line, what));
  };
  const auto takes_all = [&](const ExportConfig& other) {
    return other.path == entry.path && other.clients.has_all_of(entry.clients);
  };
  const auto before = config.exports.begin() + static_cast<std::ptrdiff_t>(index);
  if (const auto found = std::find_if(config.exports.begin(), before, takes_all); found != before) {
    warn(fmt::format("is for nobody: its clients {} are those of an entry before it, and the first counts",
                     network_text(entry.clients)));
  }
  if (entry.squash == ExportConfig::Squash::kNone) {
    if (entry.clients.prefix() == 0) {
      warn(fmt::format("lets root of every host {} everything: {} with squash = \"none\"",
                       entry.read_only ? "read" : "change", network_text(entry.clients)));
    }
    return;
  }
  if (entry.anonymous_uid == 0) warn("makes those whom it squashes root: anonymous_uid = 0");
  if (entry.anonymous_gid == 0) warn("puts those whom it squashes into root's group: anonymous_gid = 0");
}

}  // namespace

void read_exports(config_internal::Refusals& refusals, const toml::array& entries, EnsembleConfig& config) {
  for (const toml::node& entry : entries) {
    const std::size_t before = config.exports.size();
    read_export(refusals, *entry.as_table(), config.exports);
    for (std::size_t i = before; i < config.exports.size(); ++i) {
      warn_of_export(i, line_of(entry), config);
      check_security(refusals, line_of(entry), config.exports[i], config.proxy);
    }
  }
  if (config.exports.size() > kMaxExports)
    refusals.add(line_of(entries), "more than {} clients in [[export]]", kMaxExports);
}

}  // namespace slice
