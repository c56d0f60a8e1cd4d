#include "control/slicectl/quota_command.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <utility>

#include "control/slicectl/render_parts.h"

namespace slice::slicectl {
namespace {

constexpr std::array<std::pair<char, std::uint32_t>, 4> kUnitsOfTime{
    {{'d', 24 * 3600}, {'h', 3600}, {'m', 60}, {'s', 1}}};

std::string owner_name(QuotaId whose, const Settings& settings) {
  if (whose.kind == QuotaKind::kTree) {
    const auto tree = settings.trees.find(tree_of(whose));
    return tree == settings.trees.end() ? "" : tree->second.path;
  }
  if (whose.kind == QuotaKind::kUser) {
    const passwd* user = ::getpwuid(whose.id);
    return user == nullptr ? "" : user->pw_name;
  }
  const group* entry = ::getgrgid(whose.id);
  return entry == nullptr ? "" : entry->gr_name;
}

// How far somebody is with a limit, in a word.
std::string state_of(const QuotaLimit& limit, std::uint64_t used, std::uint32_t grace, std::uint64_t now) {
  if (limit.hard != 0 && used >= limit.hard) return "full";
  if (limit.over_since == 0) return "";
  const std::uint64_t end = limit.over_since + grace;
  return now >= end ? "grace over" : "grace " + grace_text(end - now);
}

Json limit_json(const QuotaLimit& limit, std::uint64_t used, std::uint32_t grace) {
  Json json{{"used", used}, {"soft", limit.soft}, {"hard", limit.hard}};
  if (limit.over_since != 0) json["grace_ends"] = limit.over_since + grace;
  return json;
}

std::string limit_text(std::uint64_t limit, bool bytes) {
  if (limit == 0) return "-";
  return bytes ? bytes_text(limit) : fmt::format("{}", limit);
}

}  // namespace

std::optional<std::uint32_t> parse_number(std::string_view text, int base) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<QuotaLimit> parse_quota_limit(std::string_view text) {
  QuotaLimit limit;
  const std::size_t colon = text.find(':');
  auto soft = parse_size(text.substr(0, colon));
  if (!soft) return fail(std::move(soft.error()));
  limit.soft = *soft;
  if (colon == text.npos) return limit;
  auto hard = parse_size(text.substr(colon + 1));
  if (!hard) return fail(std::move(hard.error()));
  limit.hard = *hard;
  if (limit.hard != 0 && limit.soft > limit.hard)
    return fail(Errc::kInvalid, "'{}': the soft limit is above the hard one", text);
  return limit;
}

Result<std::uint32_t> parse_grace(std::string_view text) {
  for (const auto& [letter, seconds] : kUnitsOfTime) {
    if (!text.ends_with(letter)) continue;
    const auto number = parse_number(text.substr(0, text.size() - 1));
    if (number && *number <= std::numeric_limits<std::uint32_t>::max() / seconds) return *number * seconds;
  }
  return fail(Errc::kInvalid, "'{}' is no time: 90s, 30m, 12h and 7d are", text);
}

std::string grace_text(std::uint64_t seconds) {
  for (const auto& [letter, unit] : kUnitsOfTime) {
    if (unit > 1 && seconds >= unit && seconds % unit == 0)
      return fmt::format("{}{}", seconds / unit, letter);
  }
  if (seconds >= 3600) return fmt::format("{}h{}m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{}s", seconds);
}

Result<QuotaId> find_owner(const std::string& kind, const std::string& name, const Settings& settings) {
  const auto found = std::find(kQuotaKindNames.begin(), kQuotaKindNames.end(), kind);
  const auto which = static_cast<QuotaKind>(found - kQuotaKindNames.begin());
  if (const auto number = parse_number(name)) return QuotaId{which, *number};
  if (which == QuotaKind::kTree) {
    if (const Trees::value_type* tree = settings.tree_at(name)) return QuotaId{which, tree->first.value};
    return fail(Errc::kNotFound, "{} is no tree (slicectl tree list)", name);
  }
  if (which == QuotaKind::kUser) {
    if (const passwd* user = ::getpwnam(name.c_str())) return QuotaId{which, user->pw_uid};
  } else if (const group* entry = ::getgrnam(name.c_str())) {
    return QuotaId{which, entry->gr_gid};
  }
  return fail(Errc::kNotFound, "this host knows no {} '{}'; a number can be given", kind, name);
}

std::string render_quotas(const wire::QuotaUsageResult& usage, const Settings& settings, std::uint64_t now,
                          Format format) {
  if (format == Format::kJson) {
    Json list = Json::array();
    for (const auto& one : usage.quotas) {
      list.push_back({{"kind", quota_kind_name(one.whose.kind)},
                      {"id", one.whose.id},
                      {"name", owner_name(one.whose, settings)},
                      {"space", limit_json(one.quota.space, one.usage.space, one.quota.grace)},
                      {"files", limit_json(one.quota.files, one.usage.files, one.quota.grace)},
                      {"grace", one.quota.grace}});
    }
    return dump({{"counted", usage.known}, {"quotas", std::move(list)}});
  }
  std::vector<std::vector<std::string>> rows{
      {"whose", "space", "soft", "hard", "", "files", "soft", "hard", "", "grace"}};
  for (const auto& one : usage.quotas) {
    const std::string name = owner_name(one.whose, settings);
    const auto& [space, files, grace] = one.quota;
    rows.push_back({fmt::format("{} {}", quota_kind_name(one.whose.kind),
                                name.empty() ? fmt::format("{}", one.whose.id) : name),
                    bytes_text(one.usage.space), limit_text(space.soft, true), limit_text(space.hard, true),
                    state_of(space, one.usage.space, grace, now), fmt::format("{}", one.usage.files),
                    limit_text(files.soft, false), limit_text(files.hard, false),
                    state_of(files, one.usage.files, grace, now), grace_text(grace)});
  }
  std::string text = usage.quotas.empty() ? "nobody has a quota\n" : table(rows);
  if (!usage.known && !usage.quotas.empty()) text += "not everything is counted yet: usage may be more\n";
  return text;
}

QuotaCommand::QuotaCommand(const cli::Command& app)
    : quota_(
          app.add_subcommand("quota", "what users, groups and trees may have, and have (docs/quotas.md)")) {
  quota_.require_subcommand();
  set_ = quota_.add_subcommand("set", "gives a user, group or tree limits, in place of those that are named");
  set_.add_option("--space", space_, "SOFT[:HARD] of bytes, as 10GiB:12GiB; 0: no such limit");
  set_.add_option("--files", files_, "SOFT[:HARD] of files, directories and all else; 0: no such limit");
  set_.add_option("--grace", grace_, "how long one may be over a soft limit, as 7d, 12h, 30m, 90s; first 7d");
  show_ = quota_.add_subcommand("show", "of one user, group or tree");
  list_ = quota_.add_subcommand("list", "of all who have a quota");
  remove_ = quota_.add_subcommand("remove", "takes a quota away: who had it may have what there is room for");
  for (const cli::Command& each : {set_, show_, remove_}) {
    each.add_option("kind", kind_, "user, group or tree")
        .required()
        .one_of({kQuotaKindNames.begin(), kQuotaKindNames.end()});
    each.add_option("name", name_, "whose: a name of this host, a tree's path, or a number").required();
  }
  quota_.footer(
      "Exit codes: 0 done; 1 nothing is changed, or there is no such quota, or no answer; 3 changed, and "
      "some "
      "processes do not know it yet.");
}

Status QuotaCommand::check() {
  if (list_.parsed()) return {};
  change_.remove = remove_.parsed();
  if (!set_.parsed()) return {};
  const auto take = [this](const std::string& text, wire::ChangeQuotaArgs::Field field, QuotaLimit& into) {
    if (text.empty()) return Status{};
    auto limit = parse_quota_limit(text);
    if (!limit) return Status(fail(std::move(limit.error())));
    into = *limit;
    change_.fields |= field;
    return Status{};
  };
  SLICE_RETURN_IF_ERROR(take(space_, wire::ChangeQuotaArgs::kSpace, change_.quota.space));
  SLICE_RETURN_IF_ERROR(take(files_, wire::ChangeQuotaArgs::kFiles, change_.quota.files));
  if (!grace_.empty()) {
    auto grace = parse_grace(grace_);
    if (!grace) return fail(std::move(grace.error()));
    change_.quota.grace = *grace;
    change_.fields |= wire::ChangeQuotaArgs::kGrace;
  }
  if (change_.fields == 0) return fail(Errc::kInvalid, "nothing is to be set: --space, --files or --grace");
  return {};
}

Task<int> QuotaCommand::run(const Seams& seams, const Output& output) {
  auto settings = co_await ask_settings(seams);
  if (!settings) co_return output.say(settings.error());
  settings_ = std::move(*settings);
  if (list_.parsed()) co_return co_await show(seams, output, {.all = true, .whose = {}});
  auto whose = find_owner(kind_, name_, settings_);
  if (!whose) co_return output.say(whose.error());
  change_.whose = *whose;
  if (show_.parsed()) co_return co_await show(seams, output, {.whose = change_.whose});
  co_return co_await change(seams, output, change_);
}

Task<int> QuotaCommand::change(const Seams& seams, const Output& output, wire::ChangeQuotaArgs args) {
  auto changed = co_await ask_to_change_quota(seams, std::move(args));
  if (!changed) co_return output.say(changed.error());
  for (const std::string& name : changed->late) output.report(name + " does not know it yet");
  if (output.format == Format::kJson) {
    output.print(dump({{"generation", changed->generation.value}, {"late", changed->late}}));
  } else {
    output.print(fmt::format("{} {}: {}; settings of generation {}\n", kind_, name_,
                             remove_.parsed() ? "has no quota" : "the quota is set",
                             changed->generation.value));
  }
  co_return changed->late.empty() ? 0 : kSomeAreLate;
}

Task<int> QuotaCommand::show(const Seams& seams, const Output& output, wire::QuotaUsageArgs args) {
  auto usage = co_await ask_quota_usage(seams, args);
  if (!usage) co_return output.say(usage.error());
  if (!args.all && usage->quotas.empty())
    co_return output.say({Errc::kNotFound, fmt::format("{} {} has no quota", kind_, name_)});
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::nanoseconds(seams.loop.wall().ns));
  output.print(render_quotas(*usage, settings_, static_cast<std::uint64_t>(now.count()), output.format));
  co_return 0;
}

}  // namespace slice::slicectl
