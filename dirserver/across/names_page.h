// NamesPage: names of a directory from a cookie on, as many as fit: what READDIR and READDIRPLUS answer with,
// and what one directory server tells another of its sites (wire/directory.h, LIST).
#ifndef SLICE_DIRSERVER_ACROSS_NAMES_PAGE_H
#define SLICE_DIRSERVER_ACROSS_NAMES_PAGE_H

#include <vector>

#include "wire/directory.h"

namespace slice::dirserver {

struct NamesPage {
  bool end = false;     // no name is behind these
  wire::SiteSet sites;  // that were looked at, the last one up to where the page ends
  std::vector<wire::ListedName> names;
};

// How much a page takes. Sizes are as in a READDIRPLUS reply, about.
struct PageLimits {
  std::uint32_t bytes = 0;
  bool attributes = false;  // and handles; where they cannot be had, names come without
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_NAMES_PAGE_H
