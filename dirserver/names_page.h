// NamesPage: names of a directory from a cookie on, as many as fit: what READDIR and READDIRPLUS answer with,
// and what one directory server tells another of its sites (wire/directory.h, LIST).
#ifndef SLICE_DIRSERVER_NAMES_PAGE_H
#define SLICE_DIRSERVER_NAMES_PAGE_H

#include <vector>

#include "dirserver/operation.h"

namespace slice::dirserver {

struct NamesPage {
  bool end = false;  // no name is behind these
  std::vector<wire::ListedName> names;
};

// How much a page takes. Sizes are as in a READDIRPLUS reply, about.
struct PageLimits {
  std::uint32_t bytes = 0;
  bool attributes = false;  // and handles; where they cannot be had, names come without
};

// Names on this server's sites, in the order of cookies, behind `after`. Waits for changes that are prepared.
// `shown` as in read_object().
Task<Answer<NamesPage>> names_here(Volume& volume, CellRef directory, Cookie after, PageLimits limits,
                                   storage::LogPosition& shown);
// Names on all sites; other servers are asked only where a page is not filled before their first name.
Task<Answer<NamesPage>> names_everywhere(Volume& volume, CellRef directory, Cookie after, PageLimits limits,
                                         storage::LogPosition& shown);

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_NAMES_PAGE_H
