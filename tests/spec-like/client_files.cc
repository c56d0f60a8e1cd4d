// How a client makes its file set, and takes it away.
#include <algorithm>
#include <cmath>

#include "tests/spec-like/client.h"
#include "tests/spec-like/finished.h"

namespace slice::load {
namespace {

constexpr std::size_t kAtOnce = 16;
constexpr std::uint32_t kFewestDirectories = 4;
constexpr std::uint64_t kStock = 32;  // temporary files for the first REMOVEs and RENAMEs

// Does `count` things, kAtOnce at a time.
template <class Make>
Task<void> strand(std::shared_ptr<std::uint64_t> next, std::uint64_t count, Make make,
                  std::shared_ptr<std::uint64_t> bad) {
  while (*next < count && *bad == 0) {
    const std::uint64_t mine = (*next)++;
    if (!co_await make(mine)) ++*bad;
  }
}
template <class Make>
Task<bool> many(std::uint64_t count, Make make) {
  auto next = std::make_shared<std::uint64_t>(0), bad = std::make_shared<std::uint64_t>(0);
  std::vector<Task<bool>> strands;
  for (std::size_t i = 0; i < std::min<std::uint64_t>(kAtOnce, count); ++i) {
    strands.push_back(finished(strand(next, count, make, bad)));
  }
  co_await all(std::move(strands));
  co_return *bad == 0;
}

}  // namespace

Task<Status> Client::prepare(Handle root, std::string name) {
  root_ = root;
  folder_name_ = std::move(name);
  auto limits = co_await nfs_.ask_limits(root);
  if (!limits) co_return limits;
  auto folder = co_await operations_.make_directory(root_, folder_name_, nullptr);
  if (!folder) co_return fail(std::move(folder).error());
  folder_ = *folder;
  operations_.set_root(folder_);
  co_return Status();
}

Task<Status> Client::grow(double operations_per_second) {
  const double bytes = static_cast<double>(mix_.bytes_per_op) * operations_per_second;
  const std::uint64_t wanted =
      std::max(mix_.files, static_cast<std::uint64_t>(std::ceil(bytes / mix_.mean_file_size())));
  const std::uint64_t directories = std::max<std::uint64_t>(
      kFewestDirectories, (wanted + mix_.files_per_directory - 1) / mix_.files_per_directory);
  const std::uint64_t old_directories = files_.directories().size();
  if (directories > old_directories) {
    files_.directories().resize(directories);
    const bool made = co_await many(directories - old_directories, [this, old_directories](std::uint64_t i) {
      return build_directory(static_cast<std::uint32_t>(old_directories + i));
    });
    if (!made) co_return fail(Errc::kIo, "the directories of the file set cannot be made");
  }
  const std::uint64_t before = files_.made();
  if (wanted > before) {
    const bool made = co_await many(wanted - before, [this, before](std::uint64_t i) {
      return build_file(static_cast<std::uint32_t>((before + i) / mix_.files_per_directory), draw_size());
    });
    if (!made) co_return fail(Errc::kIo, "the files of the file set cannot be made");
  }
  const bool removes =
      std::any_of(mix_.transactions.begin(), mix_.transactions.end(), [](const Transaction& each) {
        const auto gone = [](Step step) { return step == Step::kRemove || step == Step::kRename; };
        return std::any_of(each.steps.begin(), each.steps.end(), gone);
      });
  if (removes && !co_await many(kStock, [this](std::uint64_t) { return make_temporary(); })) {
    co_return fail(Errc::kIo, "files to be removed cannot be made");
  }
  co_return Status();
}

Task<bool> Client::build_directory(std::uint32_t number) {
  Directory& directory = files_.directories()[number];
  auto made = co_await operations_.make_directory(folder_, "d" + std::to_string(number), &directory);
  if (!made) {
    operations_.tally().texts.push_back("FAILED " + made.error().message);
    co_return false;
  }
  for (std::uint32_t i = 0; i < mix_.links_per_directory; ++i) {
    Link& link = files_.links().emplace_back();
    link.directory = number;
    link.name = "l" + std::to_string(i);
    link.target = fmt::format("d{}/target-of-{}", number, i);
    if (!co_await operations_.make_link(directory, link)) co_return false;
  }
  co_return true;
}

Task<bool> Client::build_file(std::uint32_t directory, std::uint64_t size) {
  File& file = files_.new_file(directory, size, false);
  const bool good = co_await operations_.create(file) && co_await operations_.write_whole(file);
  files_.release(file);
  co_return good;
}

Task<bool> Client::make_temporary() {
  File& file = files_.new_file(files_.pick_directory(), draw_size(), true);
  const bool good = co_await operations_.create(file);
  files_.release(file);
  co_return good;
}

Task<void> Client::clean_directory(Directory& directory) {
  std::vector<std::string> names;
  for (const auto& [name, state] : directory.names) names.push_back(name);
  co_await many(names.size(), [this, &directory, &names](std::uint64_t i) {
    return operations_.remove_name(directory.handle, names[i], false);
  });
  co_await operations_.remove_name(folder_, directory.name, true);
}

Task<Status> Client::clean() {
  if (folder_.size == 0) co_return Status();
  for (Directory& directory : files_.directories()) {
    if (directory.handle.size > 0) co_await clean_directory(directory);
  }
  if (!co_await operations_.remove_name(root_, folder_name_, true)) {
    co_return fail(Errc::kIo, "{} cannot be removed", folder_name_);
  }
  co_return Status();
}

}  // namespace slice::load
