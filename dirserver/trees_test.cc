// Trees (docs/trees.md): a directory that is of another tree than the one above it, what of names goes from
// one to the other, whose exports and quotas count.
#include "wire/trees.h"
#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using namespace std::chrono_literals;

constexpr TreeId kHome{0xfffe}, kInner{3};
const Credential kUser{1001, 50, {}};

class TreesTest : public DirectoryFixture {
 protected:
  TreesTest() {
    change([](Settings& settings) {
      settings.trees[kHome] = {.path = "/home", .above = {}};
      settings.trees[kInner] = {.path = "/home/in", .above = kHome};
    });
    nfs3::SetAttributes open;
    open.mode = 0777;
    EXPECT_EQ(setattr(root(), open), NfsStatus::kOk);
    home_ = make_tree(root(), "home", kHome);
    out_ = mkdir(root(), "out", kUser, 0777).handle;
  }
  void change(const std::function<void(Settings&)>& how) {
    Settings next = *settings_.get();
    ++next.generation.value;
    how(next);
    settings_.set(std::move(next));
    follow_settings();
    loop_.advance(1s);
  }
  // As slicectl does it.
  template <class Ok, class Args>
  NfsStatus as_the_ensemble(Procedure procedure, const Args& args, Ok& ok) {
    rpc::XdrWriter arguments;
    nfs3::encode_arguments(arguments, args);
    rpc::Request request;
    request.to = endpoint("dir1");
    request.program = nfs3::kProgram;
    request.version = nfs3::kVersion;
    request.procedure = static_cast<std::uint32_t>(procedure);
    request.arguments = arguments.take();
    auto response = run(network_.call(std::move(request)));
    NfsStatus status = NfsStatus::kServerFault;
    EXPECT_TRUE(response);
    if (!response) return status;
    kept_ = std::move(*response);
    rpc::XdrReader in(kept_->results());
    EXPECT_TRUE(nfs3::decode_result(in, status, ok));
    return status;
  }
  Handle make_tree(const Handle& above, std::string_view name, TreeId tree) {
    nfs3::MkdirArgs args{.where = {above, name}};
    args.attributes.mode = 0777;
    args.attributes.size = tree.value;
    nfs3::CreatedOk made;
    EXPECT_EQ(as_the_ensemble(Procedure::kMkdir, args, made), NfsStatus::kOk);
    return lookup(above, name).handle;
  }
  TreeId tree_of(const Handle& handle) { return handles_.open(handle)->tree; }

  Handle home_{}, out_{};
  std::optional<rpc::Response> kept_;
};

TEST_F(TreesTest, WhatIsMadeInOneIsOfIt) {
  EXPECT_EQ(tree_of(root()), TreeId{});
  EXPECT_EQ(tree_of(out_), TreeId{});
  EXPECT_EQ(tree_of(home_), kHome);
  const Handle below = mkdir(home_, "d", kUser).handle, file = create(below, "f", kUser).handle;
  EXPECT_EQ(tree_of(below), kHome);
  EXPECT_EQ(tree_of(file), kHome);
  EXPECT_EQ(lookup(below, "f").handle, file);
  EXPECT_EQ(lookup(below, "..").handle, home_);
  EXPECT_EQ(lookup(home_, "..").handle, root());
  EXPECT_EQ(tree_of(make_tree(home_, "in", kInner)), kInner);
  restart();
  EXPECT_EQ(lookup(root(), "home").handle, home_);
  EXPECT_EQ(lookup(below, "f").handle, file);
}

TEST_F(TreesTest, NoClientMakesOneOrTakesOneAway) {
  const Handle above = root();
  nfs3::MkdirArgs args{.where = {above, "mine"}};
  args.attributes.size = kHome.value;
  nfs3::CreatedOk made;
  ASSERT_EQ(call(Procedure::kMkdir, args, made), NfsStatus::kOk);
  EXPECT_EQ(tree_of(lookup(root(), "mine").handle), TreeId{});
  EXPECT_EQ(rmdir(root(), "home"), NfsStatus::kAcces);
  EXPECT_EQ(rename(root(), "home", root(), "house"), NfsStatus::kAcces);
  EXPECT_EQ(rename(root(), "mine", root(), "home"), NfsStatus::kAcces);
  EXPECT_EQ(getattr(home_), NfsStatus::kOk);
  nfs3::WccData wcc;
  create(home_, "f", kUser);
  EXPECT_EQ(as_the_ensemble(Procedure::kRmdir, nfs3::RmdirArgs{above, "home"}, wcc), NfsStatus::kNotEmpty);
  EXPECT_EQ(remove(home_, "f"), NfsStatus::kOk);
  EXPECT_EQ(as_the_ensemble(Procedure::kRmdir, nfs3::RmdirArgs{above, "home"}, wcc), NfsStatus::kOk);
  EXPECT_EQ(getattr(home_), NfsStatus::kStale);
}

TEST_F(TreesTest, NothingGoesFromOneToAnother) {
  const Handle in = create(home_, "in", kUser).handle, out = create(out_, "out", kUser).handle;
  mkdir(home_, "d", kUser);
  EXPECT_EQ(rename(home_, "in", out_, "x", kUser), NfsStatus::kXdev);
  EXPECT_EQ(rename(out_, "out", home_, "x", kUser), NfsStatus::kXdev);
  EXPECT_EQ(rename(home_, "d", out_, "x", kUser), NfsStatus::kXdev);
  EXPECT_EQ(link(in, out_, "x", kUser), NfsStatus::kXdev);
  EXPECT_EQ(link(out, home_, "x", kUser), NfsStatus::kXdev);
  EXPECT_EQ(rename(home_, "in", lookup(home_, "d").handle, "y", kUser), NfsStatus::kOk);
  EXPECT_EQ(link(in, home_, "z", kUser), NfsStatus::kOk);
  EXPECT_EQ(names(out_), std::vector<std::string>{"out"});
}

TEST_F(TreesTest, ItsOwnExportsCountInIt) {
  const Handle file = create(home_, "f", kUser).handle;
  const auto let_in = [this](IpAddress address, bool read_only) {
    change([&](Settings& settings) {
      std::erase_if(settings.exports, [](const ExportConfig& entry) { return entry.path == "/home"; });
      settings.exports.push_back(
          {.path = "/home", .clients = parse_network(address_text(address)).value(), .read_only = read_only});
    });
  };
  let_in(0x01020304, false);
  EXPECT_EQ(getattr(file), NfsStatus::kAcces);
  EXPECT_EQ(getattr(home_), NfsStatus::kAcces);
  EXPECT_EQ(create(home_, "g", kUser).status, NfsStatus::kAcces);
  EXPECT_EQ(getattr(out_), NfsStatus::kOk);
  EXPECT_EQ(lookup(root(), "home").handle, home_) << "its directory is seen from above";
  let_in(kClient.address, true);
  EXPECT_EQ(getattr(file), NfsStatus::kOk);
  EXPECT_EQ(create(home_, "g", kUser).status, NfsStatus::kRofs);
  EXPECT_EQ(create(out_, "g", kUser).status, NfsStatus::kOk);
  // One that nobody noted, or that was forgotten, lets nobody in.
  change([](Settings& settings) { settings.trees.clear(); });
  EXPECT_EQ(getattr(file), NfsStatus::kAcces);
}

TEST_F(TreesTest, NothingIsToldOfOneByNamesThatWouldGoThere) {
  const Handle file = create(out_, "f", kUser).handle;
  create(home_, "there", kUser);
  change([](Settings& settings) {
    settings.exports.push_back({.path = "/home", .clients = *parse_network("1.2.3.4")});
  });
  for (const char* name : {"there", "none"}) {
    nfs3::RenameResult renamed;
    EXPECT_EQ(rename(out_, "f", home_, name, kUser, &renamed), NfsStatus::kXdev);
    EXPECT_FALSE(renamed.to.before || renamed.to.after);
    EXPECT_TRUE(renamed.from.after);
    nfs3::LinkResult linked;
    EXPECT_EQ(call(Procedure::kLink, nfs3::LinkArgs{file, {home_, name}}, linked, kUser), NfsStatus::kXdev);
    EXPECT_FALSE(linked.directory.before || linked.directory.after);
    EXPECT_EQ(rename(home_, name, out_, "g", kUser), NfsStatus::kAcces);
  }
}

TEST_F(TreesTest, NothingIsAboveItForWhoMayNotComeIn) {
  change([&](Settings& settings) {
    for (ExportConfig& entry : settings.exports) entry.path = "/home";
  });
  EXPECT_EQ(getattr(root()), NfsStatus::kAcces);
  EXPECT_EQ(lookup(home_, "..").handle, home_);
  const Page page = readdirplus(home_, 0, {}, 4096, 4096);
  ASSERT_EQ(page.status, NfsStatus::kOk);
  ASSERT_EQ(page.entries.at(1).name, "..");
  EXPECT_FALSE(page.entries[1].handle);
  EXPECT_FALSE(page.entries[1].attributes);
}

TEST_F(TreesTest, ItsQuotaIsWhatThereIsInIt) {
  change([](Settings& settings) {
    settings.quotas[{QuotaKind::kTree, kHome.value}] = {.space = {0, 64 << 10, 0}, .files = {0, 3, 0}};
  });
  EXPECT_EQ(create(home_, "a", kUser).status, NfsStatus::kOk);
  EXPECT_EQ(create(home_, "b").status, NfsStatus::kOk);
  EXPECT_EQ(create(home_, "c", kUser).status, NfsStatus::kDquot);
  EXPECT_EQ(create(home_, "c").status, NfsStatus::kDquot) << "the superuser's, too";
  EXPECT_EQ(create(out_, "c").status, NfsStatus::kOk);
  EXPECT_EQ(link(lookup(home_, "a").handle, home_, "c"), NfsStatus::kOk);
  nfs3::FsstatOk within, outside;
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(home_), within), NfsStatus::kOk);
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(out_), outside), NfsStatus::kOk);
  EXPECT_EQ(within.total_files, 3u);
  EXPECT_EQ(within.free_files, 0u);
  EXPECT_EQ(within.total_bytes, 64u << 10);
  EXPECT_EQ(within.free_bytes, 60u << 10) << "but for its directory";
  EXPECT_GT(outside.total_bytes, within.total_bytes);
  EXPECT_GT(outside.free_files, 0u);
  // A soft limit alone is told of, too.
  change([](Settings& settings) {
    settings.quotas[{QuotaKind::kTree, kHome.value}] = {.space = {8 << 10, 0, 0}, .files = {}};
  });
  ASSERT_EQ(call(Procedure::kFsstat, nfs3::HandleView(home_), within), NfsStatus::kOk);
  EXPECT_EQ(within.total_bytes, 8u << 10);
  EXPECT_EQ(within.total_files, outside.total_files);
}

TEST_F(TreesTest, DataServersAskForRoomInIt) {
  change([](Settings& settings) {
    settings.quotas[{QuotaKind::kTree, kHome.value}] = {.space = {0, 64 << 10, 0}, .files = {}};
  });
  const auto room = [this](QuotaOwners owners, std::uint64_t needed) {
    return run(service::internal_call<wire::RoomResult>(
                   network_, endpoint("dir1"), wire::kAuthorityProgram, wire::AuthorityProcedure::kRoom,
                   wire::RoomArgs{.server = 1, .owners = owners, .held = 0, .needed = needed}))
        .value()
        .promised;
  };
  EXPECT_LT(room(QuotaOwners::of_tree(kHome), 61 << 10), 61u << 10) << "its directory takes 4 KiB";
  EXPECT_GE(room({1001, 50, kHome}, 40 << 10), 40u << 10);
  EXPECT_LT(room({1002, 50, kHome}, 40 << 10), 40u << 10) << "the others were promised more than the rest";
  EXPECT_GE(room({1002, 50, {}}, 1 << 20), 1u << 20);
}

}  // namespace
}  // namespace slice::dirserver::testing
