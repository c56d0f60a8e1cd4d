// check_stores(): whether what the directory servers have stored is the tree of the model and nothing else:
// every object has one attribute cell and every name its place, and when all is calm nobody owes anybody
// anything. What clients cannot see is found here: cells that no name leads to, records that are never
// erased.
#ifndef SLICE_TESTS_SIM_STORE_CHECK_H
#define SLICE_TESTS_SIM_STORE_CHECK_H

#include <string>
#include <vector>

#include "storage/kv_store.h"
#include "tests/sim/model.h"

namespace slice::sim {

// What is wrong, a line each; empty where nothing is.
std::string check_stores(const std::vector<const storage::KvStore*>& stores, const Model& tree);

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_STORE_CHECK_H
