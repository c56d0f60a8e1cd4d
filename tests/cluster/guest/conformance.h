// The topics of the conformance tests; one file each.
#ifndef SLICE_TESTS_CLUSTER_GUEST_CONFORMANCE_H
#define SLICE_TESTS_CLUSTER_GUEST_CONFORMANCE_H

#include <vector>

#include "tests/cluster/guest/check.h"

namespace slice::guest {

std::vector<Test> basic_tests();       // Connectathon's basic set: trees, look-ups, attributes, data, links
std::vector<Test> general_tests();     // what programs do with open files: append, map, remove while open
std::vector<Test> listing_tests();     // directory listings, long and changing
std::vector<Test> data_tests();        // sparse files, truncation, limits of offsets, every alignment
std::vector<Test> error_tests();       // which errno each mistake gets
std::vector<Test> permission_tests();  // what each user may do
std::vector<Test> attribute_tests();   // times, link counts, modes

}  // namespace slice::guest

#endif  // SLICE_TESTS_CLUSTER_GUEST_CONFORMANCE_H
