// The page's files, as they lie in control/webd/pages/.
#ifndef SLICE_CONTROL_WEBD_PAGES_H
#define SLICE_CONTROL_WEBD_PAGES_H

#include <array>
#include <string_view>

namespace slice::webd {

struct Asset {
  std::string_view path, content_type, text;
};
extern const std::array<Asset, 3> kAssets;

}  // namespace slice::webd

#endif  // SLICE_CONTROL_WEBD_PAGES_H
