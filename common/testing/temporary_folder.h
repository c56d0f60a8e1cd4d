// TemporaryFolder: a folder of its own, for tests and benchmarks, which is gone with what is in it at the
// end. As a member it stands before what has files there, so that it outlives that.
#ifndef SLICE_COMMON_TESTING_TEMPORARY_FOLDER_H
#define SLICE_COMMON_TESTING_TEMPORARY_FOLDER_H

#include <cstdlib>
#include <filesystem>
#include <string>

namespace slice {

class TemporaryFolder {
 public:
  // `above` is there. Where no folder can be made the program ends.
  explicit TemporaryFolder(const std::filesystem::path& above = std::filesystem::temp_directory_path())
      : path_(above / "slice-test-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace slice

#endif  // SLICE_COMMON_TESTING_TEMPORARY_FOLDER_H
