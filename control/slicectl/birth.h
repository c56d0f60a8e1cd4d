// The plan of a new ensemble: which role goes where on so many hosts, and what is written for them
// (docs/install.md). No system calls, but for names of hosts through the resolver that it is given.
#ifndef SLICE_CONTROL_SLICECTL_BIRTH_H
#define SLICE_CONTROL_SLICECTL_BIRTH_H

#include <string>
#include <vector>

#include "control/slicectl/host_setup.h"

namespace slice::slicectl {

struct BirthOptions {
  std::vector<std::string> hosts;  // "NAME", "ADDRESS" or "NAME=ADDRESS" each, the first one first
  std::string virtual_address;     // or a name of it
  std::vector<std::string> storage =
      {};                    // folders, a storage node for each on every host; none: one at the usual place
  std::string clients = {};  // "ADDRESS/BITS"; empty: the 256 addresses that the virtual one is among
  std::string name = "slice";
  std::uint32_t copies = 0;       // 0: as many hosts allow
  std::uint32_t directories = 1;  // hosts with a directory server and a coordinator
};

struct Birth {
  std::string name;
  IpAddress virtual_address;
  std::string clients;
  std::uint32_t copies = 1;
  std::vector<Host> hosts;
};

// Which host has what:
//   the first: the manager and the proxy
//   the first `directories`: a directory server and a coordinator
//   all: a storage node for each folder
//   where files have one copy all, else the first `directories`: a small-file server
// Two copies from three hosts on: then one that is lost leaves two to have copies on. kInvalid: what is
// wrong.
Result<Birth> plan_birth(const BirthOptions& options, const Resolve& resolve);

std::string configuration_of(const Birth& birth);
// For sh, as root on that host, from a file or from standard input: puts the two files there, overwriting
// none, and starts the host's servers. Has the key in it.
std::string script_of(const Birth& birth, const Host& host, const std::string& configuration,
                      const std::string& key);
// "alpha.sh"
std::string script_name(const Host& host);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_BIRTH_H
