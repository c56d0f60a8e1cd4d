// The command line of a program: its options and commands, and --help of them. CLI11 does the work behind it.
// That is a library of headers, a sixth of all that was compiled when each program and each command had it
// for itself; so it is compiled here alone. To be used by one thread, before others begin.
#ifndef SLICE_CLI_COMMAND_LINE_H
#define SLICE_CLI_COMMAND_LINE_H

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace slice::cli {

inline constexpr int kBadUsage = 2;  // every program's exit code for it

// An option, or a word that stands in a place. It is a reference, valid as long as its Program.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option required() const;
  // --help shows the value that the variable has now.
  Option capture_default() const;
  // What is none of that is wrong usage. T: int, unsigned or double.
  template <class T>
  Option in_range(T least, T most) const;
  Option one_of(const std::vector<std::string>& words) const;
  // The same, however it is written: the variable gets the word as it stands here.
  Option one_of_any_case(const std::vector<std::string>& words) const;
  Option ipv4() const;
  // Several values in one word.
  Option delimiter(char between) const;
  Option expected(int values) const;
  // Where it is given several times: the last counts, or all do.
  Option take_last() const;
  Option take_all() const;
  Option needs(Option other) const;
  Option excludes(Option other) const;
  // How many values it was given; of a flag, how often.
  std::size_t count() const;

 private:
  CLI::Option* option_;
};

// A command of a program, or one of a command. It is a reference, valid as long as its Program.
class Command {
 public:
  Command() = default;  // none
  explicit Command(CLI::App& app) : app_(&app) {}

  Command add_subcommand(const std::string& name, const std::string& about) const;
  // `out` gets the value when the line is parsed, and keeps what it has where the option is not given. T: a
  // string, a path, a number, or a vector of strings or numbers; command_line.cc has the list.
  template <class T>
  Option add_option(const std::string& names, T& out, const std::string& about) const;
  Option add_flag(const std::string& names, bool& out, const std::string& about) const;
  Option add_flag(const std::string& names) const;

  void footer(const std::string& text) const;
  // One of its commands has to be given; with false it may.
  void require_subcommand(bool must = true) const;
  // All behind it is somebody else's, --help too: remaining() has it.
  void pass_on() const;

  // Whether it was given.
  bool parsed() const;
  // The same of an option of it.
  std::size_t count(const char* option) const;
  std::vector<std::string> remaining() const;

 protected:
  CLI::App* app_ = nullptr;
};

// The program itself, with --help and --version.
class Program : public Command {
 public:
  explicit Program(const std::string& about);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Options of the program may stand behind its commands, too. Before they are added.
  void fallthrough();
  // The exit code where the process is to end already: 0 where --help or --version was asked for, which is
  // printed; kBadUsage where the line is wrong, which is said on standard error, with the command that may
  // have been meant.
  std::optional<int> parse(int argc, const char* const* argv);
  // The same of words, the program's name not among them.
  std::optional<int> parse(std::vector<std::string> words);

 private:
  // A word where a command is expected that is none; false where something else is wrong.
  bool say_unknown_command() const;

  std::unique_ptr<CLI::App> owned_;
};

}  // namespace slice::cli

#endif  // SLICE_CLI_COMMAND_LINE_H
