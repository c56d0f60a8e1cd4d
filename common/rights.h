// Capabilities of the calling thread (capabilities(7)).
#ifndef SLICE_COMMON_RIGHTS_H
#define SLICE_COMMON_RIGHTS_H

#include <initializer_list>

namespace slice {

// Gives up all capabilities of the calling thread but those, CAP_... of linux/capability.h, as far as it has
// them; for good: no program that it runs gets one back. Threads and processes that it starts afterwards have
// no more than it has; other threads keep theirs. False, with errno, where the kernel refuses.
bool keep_capabilities(std::initializer_list<unsigned> wanted);

}  // namespace slice

#endif  // SLICE_COMMON_RIGHTS_H
