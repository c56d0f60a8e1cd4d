#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "common/did_you_mean.h"
#include "common/version.h"

namespace slice::cli {

Option Option::required() const {
  option_->required();
  return *this;
}

Option Option::capture_default() const {
  option_->capture_default_str();
  return *this;
}

template <class T>
Option Option::in_range(T least, T most) const {
  option_->check(CLI::Range(least, most));
  return *this;
}
template Option Option::in_range(int, int) const;
template Option Option::in_range(unsigned, unsigned) const;
template Option Option::in_range(double, double) const;

Option Option::one_of(const std::vector<std::string>& words) const {
  option_->check(CLI::IsMember(words));
  return *this;
}

Option Option::one_of_any_case(const std::vector<std::string>& words) const {
  option_->transform(CLI::IsMember(words, CLI::ignore_case));
  return *this;
}

Option Option::ipv4() const {
  option_->check(CLI::ValidIPV4);
  return *this;
}

Option Option::delimiter(char between) const {
  option_->delimiter(between);
  return *this;
}

Option Option::expected(int values) const {
  option_->expected(values);
  return *this;
}

Option Option::take_last() const {
  option_->take_last();
  return *this;
}

Option Option::take_all() const {
  option_->take_all();
  return *this;
}

Option Option::needs(Option other) const {
  option_->needs(other.option_);
  return *this;
}

Option Option::excludes(Option other) const {
  option_->excludes(other.option_);
  return *this;
}

std::size_t Option::count() const {
  return option_->count();
}

Command Command::add_subcommand(const std::string& name, const std::string& about) const {
  return Command(*app_->add_subcommand(name, about));
}

template <class T>
Option Command::add_option(const std::string& names, T& out, const std::string& about) const {
  return Option(*app_->add_option(names, out, about));
}
template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, std::filesystem::path&, const std::string&) const;
template Option Command::add_option(const std::string&, std::uint16_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::uint32_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, int&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<double>&, const std::string&) const;

Option Command::add_flag(const std::string& names, bool& out, const std::string& about) const {
  return Option(*app_->add_flag(names, out, about));
}

Option Command::add_flag(const std::string& names) const {
  return Option(*app_->add_flag(names));
}

void Command::footer(const std::string& text) const {
  app_->footer(text);
}

void Command::require_subcommand(bool must) const {
  app_->require_subcommand(must ? 1 : 0, 1);
}

void Command::pass_on() const {
  app_->prefix_command()->fallthrough(false);
  app_->set_help_flag();
}

bool Command::parsed() const {
  return app_->parsed();
}

std::size_t Command::count(const char* option) const {
  return app_->count(option);
}

std::vector<std::string> Command::remaining() const {
  return app_->remaining();
}

Program::Program(const std::string& about)
    : Command(*new CLI::App(about)),  // owned by the next line
      owned_(app_) {
  app_->set_version_flag("--version", kVersion);
}

Program::~Program() = default;

void Program::fallthrough() {
  app_->fallthrough();
}

std::optional<int> Program::parse(int argc, const char* const* argv) {
  if (app_->get_name().empty() && argc > 0) app_->name(std::filesystem::path(argv[0]).filename().string());
  return parse(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

std::optional<int> Program::parse(std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app_->parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0 && say_unknown_command()) return kBadUsage;
    return app_->exit(error) == 0 ? 0 : kBadUsage;
  }
  return std::nullopt;
}

bool Program::say_unknown_command() const {
  const CLI::App* above = app_;
  while (!above->get_subcommands().empty()) above = above->get_subcommands().front();
  if (above->get_require_subcommand_min() == 0) return false;
  for (const std::string& word : app_->remaining(true)) {
    if (word.starts_with('-')) continue;
    std::vector<std::string> known;
    for (const CLI::App* each : above->get_subcommands({})) known.push_back(each->get_name());
    std::fputs(
        fmt::format("{}: there is no command '{}'{}\n", app_->get_name(), word, did_you_mean(word, known))
            .c_str(),
        stderr);
    return true;
  }
  return false;
}

}  // namespace slice::cli
