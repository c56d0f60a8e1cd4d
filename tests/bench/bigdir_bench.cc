// What operations on one directory cost as it grows: one client, a number of calls outstanding.
//
//   bigdir_bench --server A [--export PATH] --directory-server A --pid PID --data FOLDER [--entries N]
//                [--outstanding N] [--removals N] [--json]
//
// Names and handles come through --server; the load goes straight to the directory server, whose process is
// --pid and whose data is in --data. At every power of ten from 10,000 up to --entries names: CREATE of the
// last of them, LOOKUP of names that are there and that are not, READDIR and READDIRPLUS from anywhere, a
// listing of everything, the server's memory and its bytes on disk. Then another directory of --removals
// names is emptied in two ways, and what listing and removing it costs. Every answer is checked, and so is
// the number of names in each listing. Exit code 1 when something is wrong.

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/bench/processes.h"
#include "tests/cluster/client/session.h"
#include "tests/cluster/guest/check.h"

namespace slice::client {
namespace {

constexpr std::uint64_t kSmallest = 10'000, kSamples = 20'000, kPages = 200;
constexpr std::uint32_t kPage = 32 << 10;
constexpr std::uint64_t kDotDot = 2;  // the cookie of ".."; those of names are above

struct Figure {
  double us = 0;          // of the server's processor time, per item
  double per_second = 0;  // items
  double longest_ms = 0;  // between a call and its answer
};

// A page of a listing.
struct Page {
  std::uint64_t names = 0, cookie = 0;
  bool end = false;
  double milliseconds = 0;
};

std::uint64_t bytes_below(const std::string& folder) {
  std::uint64_t bytes = 0;
  std::error_code gone;  // files come and go meanwhile
  for (auto at = std::filesystem::recursive_directory_iterator(folder, gone); at != decltype(at)();
       at.increment(gone)) {
    if (gone) break;
    const std::uint64_t size = at->is_regular_file(gone) ? at->file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

std::string name_of(std::uint64_t number) {
  return "entry-" + std::to_string(number);
}

class Bench {
 public:
  Bench(const Settings& settings, const Arguments& arguments)
      : session_(settings, "bigdir"),
        server_([&] {
          ConnectionOptions options = session_.nfs_options({});
          options.server = arguments.needed("--directory-server");
          return options;
        }()),
        pid_(static_cast<int>(arguments.number("--pid", 0))),
        data_(arguments.needed("--data")),
        outstanding_(arguments.number("--outstanding", 64)),
        json_(arguments.flag("--json")) {}

  nlohmann::json grow(std::uint64_t entries) {
    const Handle directory = session_.make_folder("large");
    nlohmann::json steps = nlohmann::json::array();
    std::uint64_t there = 0;
    const std::uint64_t bytes_before = bytes_below(data_);
    for (std::uint64_t size = kSmallest;; size = std::min(size * 10, entries)) {
      const std::uint64_t sample = std::min(kSamples, (size - there) / 2);
      const double start = now();
      create(directory, there, size - sample);
      nlohmann::json step{{"entries", size}};
      say(step, "create", create(directory, size - sample, size));
      step["fill_seconds"] = now() - start;
      there = size;
      say(step, "lookup", lookups(directory, size, true));
      say(step, "lookup_absent", lookups(directory, size, false));
      say(step, "readdir", pages(directory, false));
      say(step, "readdirplus", pages(directory, true));
      say(step, "list_all", list_all(directory, size));
      step["memory_peak"] = memory_bytes(pid_, "VmHWM");
      step["memory"] = memory_bytes(pid_, "VmRSS");
      step["disk_per_entry"] =
          static_cast<double>(bytes_below(data_) - bytes_before) / static_cast<double>(size);
      if (!json_) {
        std::printf("  %-16s %10.1f MB now, %.1f MB at most\n", "memory", step["memory"].get<double>() / 1e6,
                    step["memory_peak"].get<double>() / 1e6);
        std::printf("  %-16s %10.0f bytes an entry\n", "disk", step["disk_per_entry"].get<double>());
        std::fflush(stdout);
      }
      steps.push_back(std::move(step));
      if (size >= entries) return steps;
    }
  }

  // Removal of everything by name, and removal as `rm -r` without a memory does: the first page, again and
  // again.
  nlohmann::json remove(std::uint64_t entries) {
    nlohmann::json figures{{"entries", entries}};
    Handle directory = session_.make_folder("victims");
    create(directory, 0, entries);
    say(figures, "remove_by_name", remove_names(directory, entries));
    say(figures, "readdir_emptied", pages(directory, false, 20));
    figures["seconds_to_clear"] = wait_cleared(directory);
    say(figures, "readdir_cleared", pages(directory, false, 20));
    say(figures, "lookup_emptied", lookups(directory, entries, false));
    say(figures, "rmdir_emptied", rmdir("victims"));
    directory = session_.make_folder("victims");
    create(directory, 0, entries);
    double longest = 0;
    Figure first_page = measure(entries, [&] {
      for (;;) {
        const std::vector<std::string> names = first_names(directory, longest);
        if (names.empty()) return;
        run(names.size(), [&](std::uint64_t i) { remove_one(directory, names[i]); });
      }
    });
    first_page.longest_ms = longest;
    say(figures, "remove_first_page", first_page);
    say(figures, "rmdir_first_page", rmdir("victims"));
    return figures;
  }

 private:
  void say(nlohmann::json& into, const std::string& name, const Figure& figure) {
    into[name] = {{"us", figure.us}, {"per_second", figure.per_second}, {"longest_ms", figure.longest_ms}};
    if (json_) return;
    if (name == "create" || name == "remove_by_name") {
      std::printf("%llu entries\n", static_cast<unsigned long long>(into["entries"].get<std::uint64_t>()));
    }
    std::printf("  %-16s %10.2f us %12.0f /s %10.1f ms at most\n", name.c_str(), figure.us, figure.per_second,
                figure.longest_ms);
    std::fflush(stdout);
  }

  // Runs `work`, which does `items` of something.
  template <typename Work>
  Figure measure(std::uint64_t items, const Work& work) {
    const double processor = processor_seconds(pid_), start = now();
    longest_ = 0;
    work();
    const double count = static_cast<double>(std::max<std::uint64_t>(items, 1));
    return {(processor_seconds(pid_) - processor) * 1e6 / count, count / (now() - start), longest_ * 1e3};
  }

  // `start(i)` for i below `count`, with as many calls outstanding as asked for.
  template <typename Start>
  void run(std::uint64_t count, const Start& start) {
    for (std::uint64_t i = 0; i < count || busy_ > 0;) {
      while (i < count && busy_ < outstanding_) {
        ++busy_;
        start(i++);
      }
      server_.run_once(0.1);
    }
  }

  void finish(nfsstat3 status, nfsstat3 wanted, const char* what, double started) {
    if (status != wanted) throw RpcError(std::string(what) + " answers " + status_name(status));
    longest_ = std::max(longest_, now() - started);
    --busy_;
  }

  template <typename Arguments, typename Result>
  void send(const Procedure<Arguments, Result>& procedure, Arguments arguments, nfsstat3 wanted,
            const char* what) {
    server_.call_async<Arguments, Result>(
        procedure, arguments,
        [this, wanted, what, started = now()](const Answer<Result>& answer, const std::string& error) {
          if (!answer) throw RpcError(error);
          finish((*answer)->status, wanted, what, started);
        });
  }

  Figure create(const Handle& directory, std::uint64_t from, std::uint64_t to) {
    return measure(to - from, [&] {
      run(to - from, [&](std::uint64_t i) {
        const std::string name = name_of(from + i);
        send(kCreate, create_arguments(directory, name, GUARDED), NFS3_OK, "CREATE");
      });
    });
  }

  Figure lookups(const Handle& directory, std::uint64_t size, bool there) {
    return measure(kSamples, [&] {
      run(kSamples, [&](std::uint64_t) {
        const std::string name = name_of(guest::next_random(random_) % size + (there ? 0 : size));
        send(kLookup, LOOKUP3args{in_folder(directory, name)}, there ? NFS3_OK : NFS3ERR_NOENT, "LOOKUP");
      });
    });
  }

  void remove_one(const Handle& directory, const std::string& name) {
    send(kRemove, REMOVE3args{in_folder(directory, name)}, NFS3_OK, "REMOVE");
  }

  Figure remove_names(const Handle& directory, std::uint64_t count) {
    return measure(count, [&] { run(count, [&](std::uint64_t i) { remove_one(directory, name_of(i)); }); });
  }

  Figure rmdir(const std::string& name) {
    return measure(1, [&] {
      const double start = now();
      RMDIR3args arguments{in_folder(session_.folder(), name)};
      const nfsstat3 status = (*server_.call(kRmdir, arguments))->status;
      if (status != NFS3_OK) throw RpcError(std::string("RMDIR answers ") + status_name(status));
      longest_ = now() - start;
    });
  }

  // Any place in a listing: cookies are the site in the upper 16 bits, and below it the hash of the name.
  std::uint64_t any_cookie(std::uint64_t like) {
    return (like >> 48 << 48) | (guest::next_random(random_) >> 16);
  }

  Figure pages(const Handle& directory, bool plus, std::uint64_t count = kPages) {
    std::uint64_t names = 0;
    double longest = 0;
    const std::uint64_t first = read_page(directory, 0, plus).cookie;
    Figure figure = measure(1, [&] {
      for (std::uint64_t i = 0; i < count; ++i) {
        const Page page = read_page(directory, first <= kDotDot ? 0 : any_cookie(first), plus);
        names += std::max<std::uint64_t>(page.names, 1);
        longest = std::max(longest, page.milliseconds);
      }
    });
    return {figure.us / static_cast<double>(names), figure.per_second * static_cast<double>(names), longest};
  }

  // Until a page of an emptied directory costs what it costs in one that never held anything.
  double wait_cleared(const Handle& directory) {
    const double start = now();
    while (read_page(directory, 0, false).milliseconds > 1 && now() < start + 60) server_.run_once(0.1);
    return now() - start;
  }

  Figure list_all(const Handle& directory, std::uint64_t size) {
    double longest = 0;
    Figure figure = measure(size, [&] {
      Page page;
      std::uint64_t names = 0;
      do {
        page = read_page(directory, page.cookie, false);
        names += page.names;
        longest = std::max(longest, page.milliseconds);
      } while (!page.end);
      if (names != size + 2) throw RpcError("a listing of " + std::to_string(names) + " names");
    });
    figure.longest_ms = longest;
    return figure;
  }

  // The verifier that goes with any cookie but 0.
  void set_verifier(char* verifier, std::uint64_t cookie) const {
    if (cookie != 0) std::memcpy(verifier, verifier_, sizeof verifier_);
  }

  template <typename Entry>
  static void take(const Entry* entry, Page& page) {
    for (; entry != nullptr; entry = entry->nextentry) {
      ++page.names;
      page.cookie = entry->cookie;
    }
  }

  Page read_page(const Handle& directory, std::uint64_t cookie, bool plus) {
    Page page{.cookie = cookie};
    const double start = now();
    if (plus) {
      READDIRPLUS3args arguments{directory.raw(), cookie, {}, kPage, kPage};
      set_verifier(arguments.cookieverf, cookie);
      const auto got = server_.call(kReaddirplus, arguments);
      page.milliseconds = (now() - start) * 1e3;
      if ((*got)->status != NFS3_OK)
        throw RpcError(std::string("READDIRPLUS answers ") + status_name((*got)->status));
      take((*got)->READDIRPLUS3res_u.resok.reply.entries, page);
      page.end = (*got)->READDIRPLUS3res_u.resok.reply.eof != 0;
    } else {
      const auto got = readdir(directory, cookie);
      page.milliseconds = (now() - start) * 1e3;
      take((*got)->READDIR3res_u.resok.reply.entries, page);
      page.end = (*got)->READDIR3res_u.resok.reply.eof != 0;
    }
    return page;
  }

  Answer<READDIR3res> readdir(const Handle& directory, std::uint64_t cookie) {
    READDIR3args arguments{directory.raw(), cookie, {}, kPage};
    set_verifier(arguments.cookieverf, cookie);
    auto got = server_.call(kReaddir, arguments);
    if ((*got)->status != NFS3_OK)
      throw RpcError(std::string("READDIR answers ") + status_name((*got)->status));
    std::memcpy(verifier_, (*got)->READDIR3res_u.resok.cookieverf, sizeof verifier_);
    return got;
  }

  std::vector<std::string> first_names(const Handle& directory, double& longest) {
    const double start = now();
    const auto got = readdir(directory, 0);
    longest = std::max(longest, (now() - start) * 1e3);
    std::vector<std::string> names;
    for (const entry3* entry = (*got)->READDIR3res_u.resok.reply.entries; entry != nullptr;
         entry = entry->nextentry) {
      const std::string name = entry->name;
      if (name != "." && name != "..") names.push_back(name);
    }
    return names;
  }

  Session session_;
  NfsConnection server_;
  int pid_;
  std::string data_;
  std::uint64_t outstanding_;
  bool json_;
  std::uint64_t busy_ = 0, random_ = 1;
  double longest_ = 0;
  cookieverf3 verifier_ = {};
};

}  // namespace
}  // namespace slice::client

int main(int argc, char** argv) {
  using namespace slice::client;
  const Arguments arguments(argc, argv, {"--json"});
  try {
    Bench bench(settings_from(arguments), arguments);
    nlohmann::json result;
    result["grow"] = bench.grow(std::max(arguments.number("--entries", 1'000'000), kSmallest));
    const std::uint64_t removals = arguments.number("--removals", 100'000);
    if (removals > 0) result["remove"] = bench.remove(removals);
    if (arguments.flag("--json")) std::printf("%s\n", result.dump(1).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bigdir_bench: %s\n", error.what());
    return 1;
  }
}
