// The built-in mixes, as `slice-load --print-mix NAME` shows them.
#include <array>
#include <utility>

#include "tests/spec-like/mix.h"

namespace slice::load {
namespace {

using Named = std::pair<std::string_view, std::string_view>;

constexpr std::array kMixes{
    Named{
        "specsfs",
        R"(# The operations and file sizes of SPECsfs97 for NFSv3: 10 MB of files for each operation a second, a tenth of them used.
name = "specsfs"

[operations]
lookup = 27
read = 18
write = 9
getattr = 11
readlink = 7
readdir = 2
create = 1
remove = 1
fsstat = 1
setattr = 1
readdirplus = 9
access = 7
commit = 5

[files]
sizes = { 1KiB = 33, 2KiB = 21, 4KiB = 13, 8KiB = 10, 16KiB = 8, 32KiB = 5, 64KiB = 4, 128KiB = 3, 256KiB = 2, 1MiB = 1 }
bytes_per_op = "10MiB"
least = 100
working_set = 0.1
per_directory = 30
links_per_directory = 4

[io]
transfer = "8KiB"
missing = 0.05
append = 0.3
)"},
    Named{"untar", R"(# What unpacking an archive costs a name service: seven operations a file, no data.
name = "untar"

[[transaction]]
weight = 1
steps = ["missing", "access", "create", "getattr", "lookup", "setattr", "setattr"]

[files]
sizes = { 1KiB = 1 }
least = 0
per_directory = 30
links_per_directory = 0
)"},
    Named{"postmark",
          R"(# Mail and news: small files made, read, added to and removed, in the manner of PostMark.
name = "postmark"

[[transaction]]
weight = 25
steps = ["missing", "create", "write", "commit"]
[[transaction]]
weight = 25
steps = ["lookup", "remove"]
[[transaction]]
weight = 25
steps = ["lookup", "access", "read"]
[[transaction]]
weight = 25
steps = ["lookup", "access", "append", "commit"]

[files]
sizes = { 1KiB = 1, 2KiB = 1, 4KiB = 1, 6KiB = 1, 8KiB = 1, 10KiB = 1 }
bytes_per_op = "64KiB"
least = 500
per_directory = 50
links_per_directory = 0

[io]
transfer = "16KiB"
)"},
    Named{"metadata", R"(# Names and attributes alone.
name = "metadata"

[operations]
lookup = 35
getattr = 22
access = 12
setattr = 6
create = 6
remove = 5
rename = 3
readlink = 5
readdir = 2
readdirplus = 3
fsstat = 1

[files]
sizes = { 1KiB = 1 }
bytes_per_op = "32KiB"
least = 200
per_directory = 30
links_per_directory = 4

[io]
missing = 0.05
)"},
    Named{"sequential", R"(# Large files, written and read from their beginning to their end.
name = "sequential"

[operations]
read = 50
write = 49
commit = 1

[files]
sizes = { 4MiB = 1 }
least = 64
per_directory = 30
links_per_directory = 0

[io]
transfer = "64KiB"
order = "sequential"
)"},
    Named{"random", R"(# Large files, read and written anywhere.
name = "random"

[operations]
read = 70
write = 29
commit = 1

[files]
sizes = { 4MiB = 1 }
least = 64
per_directory = 30
links_per_directory = 0

[io]
transfer = "8KiB"
)"},
    Named{"mixed", R"(# Names, small files and large ones at once.
name = "mixed"

[operations]
lookup = 20
getattr = 14
access = 6
readdirplus = 3
readlink = 3
create = 3
remove = 3
setattr = 2
read = 28
write = 15
commit = 3

[files]
sizes = { 1KiB = 300, 4KiB = 300, 16KiB = 200, 64KiB = 100, 256KiB = 60, 1MiB = 30, 4MiB = 9, 16MiB = 1 }
bytes_per_op = "1MiB"
least = 100
working_set = 0.5
per_directory = 30
links_per_directory = 4

[io]
transfer = "32KiB"
missing = 0.05
append = 0.2
)"},
    Named{"getattr", R"(# One operation only: what the generator itself costs.
name = "getattr"

[operations]
getattr = 1

[files]
sizes = { 1KiB = 1 }
least = 1000
per_directory = 30
links_per_directory = 0
)"},
};

}  // namespace

std::vector<std::string_view> built_in_mixes() {
  std::vector<std::string_view> names;
  for (const auto& [name, text] : kMixes) names.push_back(name);
  return names;
}

std::string_view built_in_mix(std::string_view name) {
  for (const auto& [known, text] : kMixes) {
    if (known == name) return text;
  }
  return {};
}

}  // namespace slice::load
