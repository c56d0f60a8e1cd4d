// How config.cc, and whoever else reads TOML, reads one table of a file: typed access to keys, refusals that
// name file and line, and the refusal of keys that nobody asked for. For .cc files alone: it includes toml++,
// which is slow to compile.
#ifndef SLICE_COMMON_CONFIG_SECTION_H
#define SLICE_COMMON_CONFIG_SECTION_H

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/config.h"
#include "common/did_you_mean.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace slice::config_internal {

// What a refusal is raised through: the first one counts, later ones are consequences.
class Refusals {
 public:
  explicit Refusals(std::string file) : file_(std::move(file)) {}
  template <class... Args>
  void add(std::uint32_t line, fmt::format_string<Args...> format, Args&&... args) {
    if (error_) return;
    error_ = Error{Errc::kInvalid,
                   fmt::format("{}:{}: {}", file_, line, fmt::format(format, std::forward<Args>(args)...))};
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::string file_;
  std::optional<Error> error_;
};

// One table of the file: typed access to its keys, and in finish() the refusal of keys nobody asked for.
class Section {
 public:
  Section(Refusals& refusals, const toml::table& table, std::string what, std::uint32_t line)
      : refusals_(refusals), table_(table), what_(std::move(what)), line_(line) {}

  bool has(std::string_view key) const { return table_.contains(key); }
  // Of the key's value; of the table where there is no such key.
  std::uint32_t line(std::string_view key) const {
    const toml::node* node = table_.get(key);
    return node != nullptr && node->source().begin.line != 0 ? node->source().begin.line : line_;
  }
  std::uint32_t line() const { return line_; }
  template <class... Args>
  void refuse(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    refusals_.add(line(key), "{} of {}: {}", key, what_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::string text(std::string_view key, std::optional<std::string> otherwise = std::nullopt) {
    const toml::node* node = take(key, !otherwise);
    if (node == nullptr) return otherwise.value_or("");
    if (auto value = node->value_exact<std::string>()) return *value;
    refuse(key, "a string is expected");
    return "";
  }
  std::uint64_t number(std::string_view key, std::uint64_t otherwise, std::uint64_t least,
                       std::uint64_t most) {
    const toml::node* node = take(key, false);
    if (node == nullptr) return otherwise;
    auto value = node->value_exact<std::int64_t>();
    if (!value) {
      refuse(key, "a whole number is expected");
    } else if (*value < 0 || static_cast<std::uint64_t>(*value) < least ||
               static_cast<std::uint64_t>(*value) > most) {
      refuse(key, "{} is not between {} and {}", *value, least, most);
    } else {
      return static_cast<std::uint64_t>(*value);
    }
    return otherwise;
  }
  std::uint32_t number32(std::string_view key, std::uint32_t otherwise, std::uint32_t least = 0,
                         std::uint32_t most = std::numeric_limits<std::uint32_t>::max()) {
    return static_cast<std::uint32_t>(number(key, otherwise, least, most));
  }
  std::uint16_t port(std::string_view key, std::uint16_t otherwise) {
    return static_cast<std::uint16_t>(number(key, otherwise, 1, 65535));
  }
  // "64KiB", or a number of bytes.
  std::uint64_t size(std::string_view key, std::uint64_t otherwise) {
    const toml::node* node = table_.get(key);
    if (node != nullptr && node->is_integer()) {
      return number(key, otherwise, 0, std::numeric_limits<std::int64_t>::max());
    }
    if (node == nullptr) {
      asked_.insert(std::string(key));
      return otherwise;
    }
    auto parsed = parse_size(text(key));
    if (!parsed) refuse(key, "{}", parsed.error().message);
    return parsed.value_or(otherwise);
  }
  bool boolean(std::string_view key, bool otherwise) {
    const toml::node* node = take(key, false);
    if (node == nullptr) return otherwise;
    if (auto value = node->value_exact<bool>()) return *value;
    refuse(key, "true or false is expected");
    return otherwise;
  }
  std::optional<double> fraction(std::string_view key) {
    const toml::node* node = take(key, false);
    if (node == nullptr) return std::nullopt;
    auto value = node->value<double>();
    if (!value || !(*value >= 0 && *value <= 1)) {
      refuse(key, "a number from 0 to 1 is expected");
      return std::nullopt;
    }
    return value;
  }
  IpAddress address(std::string_view key) { return host_address(key, text(key)); }
  // `text`, a value of `key`, as the address of one host; none after a refusal.
  IpAddress host_address(std::string_view key, std::string_view text) const {
    auto parsed = parse_address(text);
    if (!parsed) {
      refuse(key, "{}", parsed.error().message);
    } else if (!parsed->is_host()) {
      refuse(key, "{} is not the address of one host", text);
    }
    return parsed.value_or(IpAddress());
  }
  // `text`, a value of `key`, as ADDRESS or ADDRESS/BITS; nothing, after a refusal, where it is neither.
  std::optional<Network> network(std::string_view key, std::string_view text) const {
    auto parsed = parse_network(text);
    if (parsed) return *parsed;
    refuse(key, "{}", parsed.error().message);
    return std::nullopt;
  }
  // The position of the value among `choices`.
  std::size_t choice(std::string_view key, std::span<const std::string_view> choices,
                     std::optional<std::size_t> otherwise) {
    if (!has(key) && otherwise) {
      asked_.insert(std::string(key));
      return *otherwise;
    }
    std::string value = text(key);
    auto found = std::find(choices.begin(), choices.end(), value);
    if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
    if (has(key)) refuse(key, "'{}' is none of {}", value, fmt::join(choices, ", "));
    return otherwise.value_or(0);
  }
  std::uint32_t mode(std::string_view key, std::uint32_t otherwise) {
    if (!has(key)) {
      asked_.insert(std::string(key));
      return otherwise;
    }
    std::string value = text(key);
    std::uint32_t parsed = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed, 8);
    if (error != std::errc{} || end != value.data() + value.size() || parsed > 07777) {
      refuse(key, "an octal mode such as \"0755\" is expected");
      return otherwise;
    }
    return parsed;
  }
  const toml::table* table(std::string_view key) {
    const toml::node* node = take(key, false);
    if (node != nullptr && !node->is_table()) refuse(key, "a table, [{}], is expected", key);
    return node == nullptr ? nullptr : node->as_table();
  }
  // An array of strings; empty where there is no such key.
  // The positions of the values among `choices`; one value may stand without brackets.
  std::vector<std::size_t> choices(std::string_view key, std::span<const std::string_view> known) {
    std::vector<std::size_t> out;
    for (const std::string& value : one_or_more_texts(key)) {
      const auto found = std::find(known.begin(), known.end(), value);
      if (found == known.end()) refuse(key, "'{}' is none of {}", value, fmt::join(known, ", "));
      out.push_back(static_cast<std::size_t>(found - known.begin()) % known.size());
    }
    return out;
  }

  std::vector<std::string> texts(std::string_view key) {
    const toml::node* node = take(key, false);
    std::vector<std::string> values;
    if (node == nullptr) return values;
    const toml::array* array = node->as_array();
    if (array == nullptr || !array->is_homogeneous(toml::node_type::string)) {
      if (array == nullptr || !array->empty()) refuse(key, "an array of strings is expected");
      return values;
    }
    for (const toml::node& value : *array) values.push_back(value.value_or(std::string()));
    return values;
  }
  // A string, or an array of one or more.
  std::vector<std::string> one_or_more_texts(std::string_view key) {
    const toml::node* node = table_.get(key);
    if (node == nullptr || !node->is_array()) return {text(key)};
    if (node->as_array()->empty()) refuse(key, "one at least is expected");
    return texts(key);
  }
  // An array of tables, [[key]].
  const toml::array* tables(std::string_view key) {
    const toml::node* node = take(key, true);
    if (node == nullptr) return nullptr;
    const toml::array* array = node->as_array();
    if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
      refuse(key, "one or more tables, [[{}]], are expected", key);
      return nullptr;
    }
    return array;
  }

  void finish() const {
    for (const auto& [key, value] : table_) {
      if (!asked_.contains(std::string(key.str()))) {
        refusals_.add(key.source().begin.line, "{} knows no key '{}'{}", what_, key.str(),
                      did_you_mean(key.str(), {asked_.begin(), asked_.end()}));
      }
    }
  }

 private:
  const toml::node* take(std::string_view key, bool required) {
    asked_.insert(std::string(key));
    const toml::node* node = table_.get(key);
    if (node == nullptr && required) refusals_.add(line_, "{} lacks '{}'", what_, key);
    return node;
  }

  Refusals& refusals_;
  const toml::table& table_;
  std::string what_;
  std::uint32_t line_;
  std::set<std::string> asked_;
};

inline std::uint32_t line_of(const toml::node& node) {
  return std::max<std::uint32_t>(node.source().begin.line, 1);
}

// The part of a line before its comment.
inline std::string_view without_comment(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote == 0 && line[i] == '#') return line.substr(0, i);
    if (quote == '"' && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"' || line[i] == '\'') {
      if (quote == 0) {
        quote = line[i];
      } else if (quote == line[i]) {
        quote = 0;
      }
    }
  }
  return line;
}

// toml++ 3.3 asserts, rather than refuses, where a table header's name starts with a character that no name
// has, and runs into undefined behaviour at some characters beyond ASCII. Such lines are found before it sees
// them. Nothing else of ours starts a line with a bracket.
inline void check_lines(Refusals& refusals, std::string_view text) {
  std::uint32_t number = 0;
  while (!text.empty()) {
    ++number;
    std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = without_comment(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    bool ascii =
        std::all_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (!ascii) refusals.add(number, "characters beyond ASCII are for comments only");
    auto skip_blanks = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
    skip_blanks();
    if (!line.starts_with('[')) continue;
    line.remove_prefix(line.starts_with("[[") ? 2 : 1);
    skip_blanks();
    bool named = !line.empty() && (std::isalnum(static_cast<unsigned char>(line[0])) != 0 ||
                                   std::string_view("_-\"'").find(line[0]) != std::string_view::npos);
    if (!named) refusals.add(number, "a table's name is expected behind '['");
  }
}

}  // namespace slice::config_internal

#endif  // SLICE_COMMON_CONFIG_SECTION_H
