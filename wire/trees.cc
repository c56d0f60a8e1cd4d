#include "wire/trees.h"

#include "wire/codec.h"
#include "wire/settings.h"

namespace slice::wire {

using rpc::XdrReader;
using rpc::XdrWriter;

namespace {

void encode_tree(XdrWriter& out, TreeId id, const Tree& tree) {
  out.u32(id.value);
  out.text(std::string_view(tree.path).substr(0, kMaxExportPath));
  out.u32(tree.above.value);
}

}  // namespace

void encode_trees(XdrWriter& out, const Trees& trees) {
  std::size_t count = encode_count(out, trees, kMaxTrees);
  for (auto each = trees.begin(); count > 0; ++each, --count) encode_tree(out, each->first, each->second);
}
Trees decode_trees(XdrReader& in) {
  Trees trees;
  const std::uint32_t count = decode_count(in, kMaxTrees);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    const TreeId id = decode_tree(in);
    if (id == TreeId{} || (!trees.empty() && trees.rbegin()->first >= id)) in.fail();
    Tree tree{.path = std::string(in.text(kMaxExportPath))};
    tree.above = decode_tree(in);
    if (!is_clean_path(tree.path)) in.fail();
    trees.emplace(id, std::move(tree));
  }
  return trees;
}

void encode(XdrWriter& out, const ChangeTreeArgs& args) {
  out.boolean(args.remove);
  encode_tree(out, args.tree, args.what);
}
bool decode(ByteView bytes, ChangeTreeArgs& out) {
  XdrReader in(bytes);
  out.remove = in.boolean();
  out.tree = decode_tree(in);
  out.what.path = std::string(in.text(kMaxExportPath));
  out.what.above = decode_tree(in);
  return in.complete();
}

void encode(XdrWriter& out, const ChangeTreeResult& result) {
  out.text(std::string_view(result.refused).substr(0, kMaxReloadText));
  out.u32(result.tree.value);
  out.u64(result.generation.value);
  encode_names(out, result.late, kMaxReloadTexts);
}
bool decode(ByteView bytes, ChangeTreeResult& out) {
  XdrReader in(bytes);
  out.refused = std::string(in.text(kMaxReloadText));
  out.tree = decode_tree(in);
  out.generation = SettingsGeneration{in.u64()};
  decode_names(in, kMaxReloadTexts, out.late);
  return in.complete();
}

}  // namespace slice::wire
