// Trees (common/settings.h, docs/trees.md) on their way: among the settings, and what an operator changes.
//
// A tree's directory is made by an MKDIR of the ensemble itself, whose attributes say the tree as the size;
// what clients say there of a directory counts for nothing. An RMDIR of the ensemble itself takes it out.
#ifndef SLICE_WIRE_TREES_H
#define SLICE_WIRE_TREES_H

#include <string>
#include <vector>

#include "common/settings.h"
#include "rpc/xdr.h"

namespace slice::wire {

// As a part of the settings; at most kMaxTrees, in order.
void encode_trees(rpc::XdrWriter& out, const Trees& trees);
Trees decode_trees(rpc::XdrReader& in);

// CHANGE_TREE, of the manager: notes a tree, under a number of its own, before its directory is made; or
// forgets it, and its quota, when its directory is gone. To note one that is noted is well.
struct ChangeTreeArgs {
  bool remove = false;
  TreeId tree;  // which is to be forgotten; or that the directory there is of, 0 where it is none's yet
  Tree what;    // nothing of one that is to be forgotten
};
struct ChangeTreeResult {
  std::string refused;  // why nothing was changed; empty: it is so, durably
  TreeId tree;
  SettingsGeneration generation;
  std::vector<std::string> late;  // living processes that do not know of it yet
};

void encode(rpc::XdrWriter& out, const ChangeTreeArgs& args);
bool decode(ByteView bytes, ChangeTreeArgs& out);
void encode(rpc::XdrWriter& out, const ChangeTreeResult& result);
bool decode(ByteView bytes, ChangeTreeResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_TREES_H
