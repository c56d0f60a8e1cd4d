// Every kind of damage is made by hand in a volume that is clean otherwise, and must be all that is found.
#include "dirserver/fsck/checker.h"
#include "dirserver/cells/client_locks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "dirserver/cells/steps.h"
#include "dirserver/fsck/testing/volume.h"

namespace slice::dirserver::fsck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Policy;
using ::testing::SizeIs;
using testing::TestVolume;
using ::testing::UnorderedElementsAre;

std::string text(Kind kind, FileId file, std::string_view name = {}) {
  return fmt::format("{} {:#x} {}", kind_name(kind), file.value, name);
}
std::vector<std::string> texts(const std::vector<Finding>& findings) {
  std::vector<std::string> all;
  for (const Finding& finding : findings) all.push_back(text(finding.kind, finding.file, finding.name));
  return all;
}

class CheckerTest : public ::testing::TestWithParam<Policy> {
 protected:
  // Files and directories enough that every site has some.
  CheckerTest() : volume_(GetParam()) {
    docs_ = volume_.mkdir(kRootId, "docs");
    deep_ = volume_.mkdir(docs_, "deep");
    below_ = volume_.mkdir(deep_, "below");
    for (int i = 0; i < 40; ++i) {
      FileId directory = volume_.mkdir(docs_, "d" + std::to_string(i));
      for (int j = 0; j < 10; ++j) volume_.create(directory, "f" + std::to_string(j));
    }
    file_ = volume_.create(docs_, "file");
    linked_ = volume_.create(deep_, "linked");
    volume_.link(linked_, docs_, "also");
  }
  void TearDown() override { EXPECT_THAT(texts(unfinished_), IsEmpty()); }

  Report check(Options options = {}) { return check_cells(volume_.stored(), options); }
  Report check_cells(const std::map<std::string, std::string>& cells, Options options = {}) {
    storage::MemoryMedium medium;
    auto stores = testing::stores_of(loop_, medium, cells);
    for (const std::string& key : unreadable_) medium.corrupt(key);
    LocalSource source(std::move(stores), 64);
    std::optional<Result<Report>> report;
    spawn(fsck::check(source, volume_.placement(), loop_, options), report);
    EXPECT_TRUE(loop_.run_until([&] { return report.has_value(); }));
    EXPECT_TRUE(report->has_value()) << report->error().message;
    unfinished_ = (*report)->unfinished();
    return std::move(**report);
  }
  std::vector<std::string> found(Options options = {}) { return texts(check(options).findings()); }

  bool hashed() const { return GetParam() == Policy::kNameHashing; }
  static SiteId beside(SiteId site) { return TestVolume::beside(site); }

  ManualLoop loop_;
  TestVolume volume_;
  FileId docs_, deep_, below_, file_, linked_;
  std::vector<std::string> unreadable_;
  std::vector<Finding> unfinished_;  // of the last check; a test that expects some takes them
};

TEST_P(CheckerTest, AWholeVolumeIsClean) {
  Report report = check();
  EXPECT_EQ(report.suspects, 1u) << "the root alone is always looked at";
  EXPECT_THAT(texts(report.findings()), IsEmpty());
  EXPECT_TRUE(report.clean());
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.passes, 1u);
  EXPECT_EQ(report.totals.directories, 44u);
  EXPECT_EQ(report.totals.files, 402u);
  EXPECT_EQ(report.totals.names, 43u + 403u);
  EXPECT_EQ(report.totals.sites, 64u);
  EXPECT_EQ(report.totals.parts > 0, hashed());
  std::uint64_t bytes = 0;
  for (const auto& [key, value] : volume_.stored()) bytes += key.size() + value.size();
  const Totals& totals = report.totals;
  EXPECT_EQ(totals.attribute_bytes + totals.name_bytes + totals.part_bytes + totals.record_bytes, bytes);
}

TEST_P(CheckerTest, DanglingName) {
  volume_.erase(file_);
  Report report = check();
  EXPECT_THAT(texts(report.findings()), ElementsAre(text(Kind::kDangling, docs_, "file")));
  EXPECT_FALSE(report.clean());
  EXPECT_EQ(report.findings()[0].site, volume_.place(docs_, "file").site);
}

TEST_P(CheckerTest, TargetOfAnotherKind) {
  FileId type = volume_.create(docs_, "type"), shift = volume_.create(docs_, "shift"),
         key = volume_.create(docs_, "key"), flags = volume_.create(docs_, "flags"),
         generation = volume_.create(docs_, "generation"), site = volume_.create(docs_, "site");
  volume_.entry(docs_, "type").target.type = nfs3::FileType::kSymlink;
  volume_.entry(docs_, "shift").target.stripe_shift ^= 1;
  volume_.entry(docs_, "key").target.cell_key ^= 1;
  volume_.entry(docs_, "flags").target.flags ^= 1;
  volume_.entry(docs_, "generation").target.cell.generation ^= 2;
  SiteId& named = volume_.entry(docs_, "site").target.cell.site;
  named = beside(named);
  EXPECT_THAT(found(),
              UnorderedElementsAre(
                  text(Kind::kWrongTarget, docs_, "type"), text(Kind::kWrongTarget, docs_, "shift"),
                  text(Kind::kWrongTarget, docs_, "key"), text(Kind::kWrongTarget, docs_, "flags"),
                  text(Kind::kWrongTarget, docs_, "generation"), text(Kind::kDangling, docs_, "site"),
                  text(Kind::kOrphan, type), text(Kind::kOrphan, shift), text(Kind::kOrphan, key),
                  text(Kind::kOrphan, flags), text(Kind::kOrphan, generation), text(Kind::kOrphan, site)));
}

TEST_P(CheckerTest, NameInADirectoryThatDoesNotExist) {
  volume_.unlink(deep_, "below");
  volume_.erase(below_);
  ASSERT_THAT(found(), IsEmpty());
  NameBucket bucket;
  bucket.insert("left", volume_.cell(file_).self);
  ++volume_.cell(file_).nlink;
  volume_.names()[name_key(home_of(below_), below_, Position{77})] = bucket;
  EXPECT_THAT(found(), ElementsAre(text(Kind::kNoDirectory, below_, "left")));
}

TEST_P(CheckerTest, NameInAFile) {
  NameBucket bucket;
  bucket.insert("inside", volume_.cell(file_).self);
  ++volume_.cell(file_).nlink;
  volume_.names()[name_key(home_of(linked_), linked_, Position{77})] = bucket;
  EXPECT_THAT(found(), ElementsAre(text(Kind::kNoDirectory, linked_, "inside")));
}

TEST_P(CheckerTest, NameAtAnotherPosition) {
  std::string key = volume_.key_of(docs_, "file");
  NameBucket bucket = volume_.names().extract(key).mapped();
  volume_.names()[name_key(site_of(key), docs_, Position{position_in(key).value ^ 1})] = bucket;
  EXPECT_THAT(found(), ElementsAre(text(Kind::kMisplaced, docs_, "file")));
}

TEST_P(CheckerTest, NameOnAnotherSite) {
  std::string key = volume_.key_of(docs_, "file");
  NameBucket bucket = volume_.names().extract(key).mapped();
  SiteId elsewhere = beside(site_of(key));
  volume_.names()[name_key(elsewhere, docs_, position_in(key))] = bucket;
  std::vector<std::string> findings = found();
  EXPECT_THAT(findings, ::testing::Contains(text(Kind::kMisplaced, docs_, "file")));
  for (const std::string& each : findings) {  // and the counts of both sites
    EXPECT_TRUE(each.starts_with("misplaced") || each.starts_with("entries") || each.starts_with("part"))
        << each;
  }
  EXPECT_THAT(findings, SizeIs(3));
}

TEST_P(CheckerTest, NamesThatNoClientGave) {
  NameBucket& bucket = volume_.bucket(docs_, "file");
  bucket.entries[0].name = "..";
  std::vector<std::string> findings = found();
  EXPECT_THAT(findings, ::testing::Contains(text(Kind::kBadName, docs_, "..")));
  bucket.entries[0].name = "file";
  NameEntry twice = bucket.entries[0];
  twice.slot = 1;
  bucket.entries.push_back(twice);
  findings = found();
  EXPECT_THAT(findings, ::testing::Contains(text(Kind::kBadName, docs_, "file")));
  EXPECT_THAT(findings, ::testing::Contains(text(Kind::kLinkCount, file_)));
}

TEST_P(CheckerTest, Orphans) {
  volume_.unlink(docs_, "file");
  EXPECT_THAT(found(), ElementsAre(text(Kind::kOrphan, file_)));
}

TEST_P(CheckerTest, LinkCountOfAFile) {
  volume_.cell(linked_).nlink = 3;
  volume_.cell(file_).nlink = 0;
  Report report = check();
  EXPECT_THAT(texts(report.findings()),
              UnorderedElementsAre(text(Kind::kLinkCount, linked_), text(Kind::kLinkCount, file_)));
}

TEST_P(CheckerTest, LinkCountOfADirectory) {
  ++volume_.cell(docs_).nlink;
  volume_.cell(below_).nlink = 1;
  EXPECT_THAT(found(), UnorderedElementsAre(text(Kind::kLinkCount, docs_), text(Kind::kLinkCount, below_)));
}

TEST_P(CheckerTest, EntriesOfADirectory) {
  ++volume_.cell(docs_).entries;
  EXPECT_THAT(found(), ElementsAre(text(Kind::kEntries, docs_)));
}

TEST_P(CheckerTest, SecondNameOfADirectory) {
  volume_.link(below_, docs_, "again");
  --volume_.cell(below_).nlink;
  Report report = check();
  EXPECT_THAT(texts(report.findings()),
              UnorderedElementsAre(text(Kind::kNames, below_), text(Kind::kParent, docs_, "again")));
  EXPECT_THAT(report.findings()[0].what, HasSubstr("\"again\""));
}

TEST_P(CheckerTest, NameOfTheRoot) {
  volume_.link(kRootId, docs_, "up");
  --volume_.cell(kRootId).nlink;
  EXPECT_THAT(found(), UnorderedElementsAre(text(Kind::kNames, kRootId), text(Kind::kParent, docs_, "up")));
}

TEST_P(CheckerTest, ParentThatIsAnother) {
  volume_.cell(below_).parent = volume_.cell(docs_).self.cell;
  EXPECT_THAT(found(), ElementsAre(text(Kind::kParent, deep_, "below")));
}

// As a name says, and the cell that it points to.
TEST_P(CheckerTest, NameOfAnotherTreeThanItsDirectory) {
  const FileId strange = volume_.create(docs_, "strange"), own = volume_.mkdir(docs_, "own"),
               below = volume_.create(own, "below");
  const auto set_tree = [&](FileId of, FileId in, const char* name, std::uint16_t tree) {
    volume_.entry(in, name).target.tree = volume_.cell(of).self.tree = TreeId{tree};
  };
  set_tree(own, docs_, "own", 3);
  set_tree(below, own, "below", 3);
  EXPECT_THAT(found(), IsEmpty()) << "a tree's own directory is in one of another";
  set_tree(strange, docs_, "strange", 3);
  set_tree(below, own, "below", 0);
  EXPECT_THAT(found(),
              UnorderedElementsAre(text(Kind::kTree, docs_, "strange"), text(Kind::kTree, own, "below")));
}

TEST_P(CheckerTest, CycleThatTheRootDoesNotLeadTo) {
  // deep is moved to below itself: docs loses it, below gets it.
  volume_.unlink(docs_, "deep");
  volume_.link(deep_, below_, "deep");
  --volume_.cell(deep_).nlink;
  volume_.entry(below_, "deep").target = volume_.cell(deep_).self;
  volume_.cell(deep_).parent = volume_.cell(below_).self.cell;
  Report report = check();
  EXPECT_THAT(texts(report.findings()), ElementsAre(text(Kind::kCycle, std::min(deep_, below_))));
  EXPECT_THAT(report.findings()[0].what, HasSubstr("2 directories"));
  report = check({.tree_bytes = 100});
  EXPECT_TRUE(report.clean());
  EXPECT_FALSE(report.complete()) << "what was not looked for is not called clean";
}

TEST_P(CheckerTest, ReclaimRecordOfAFileThatExists) {
  const Target& file = volume_.cell(file_).self;
  volume_.others()[reclaim_key(file.cell.site, file_)] = encode(ReclaimRecord{.file = file});
  volume_.others()[reclaim_key(file.cell.site, FileId{file_.value + 999})] =
      encode(ReclaimRecord{.file = file});
  EXPECT_THAT(found(), ElementsAre(text(Kind::kReclaim, file_)));
}

TEST_P(CheckerTest, TruncationsAndTheirRecords) {
  volume_.cell(linked_).truncating = true;
  const Target& linked = volume_.cell(linked_).self;
  const Target& file = volume_.cell(file_).self;
  volume_.others()[truncation_key(linked.cell.site, linked_)] = encode(TruncationRecord{.file = linked});
  ASSERT_THAT(found(), IsEmpty());
  volume_.others()[truncation_key(file.cell.site, file_)] = encode(TruncationRecord{.file = file});
  FileId gone{file_.value + 999};
  volume_.others()[truncation_key(file.cell.site, gone)] = encode(TruncationRecord{.file = file});
  EXPECT_THAT(found(), UnorderedElementsAre(text(Kind::kTruncation, file_), text(Kind::kTruncation, gone)));
  volume_.others().clear();
  EXPECT_THAT(found(), ElementsAre(text(Kind::kTruncation, linked_)));
}

TEST_P(CheckerTest, FileIdsThatWereNotGivenOut) {
  volume_.sequence(home_of(file_)) = file_.value & 0xffffffff;
  EXPECT_THAT(found(), ::testing::Contains(text(Kind::kSequence, file_)));
  auto cells = volume_.stored();
  cells.erase(sequence_key(home_of(file_)));
  EXPECT_THAT(texts(check_cells(cells).findings()), ::testing::Contains(text(Kind::kSequence, file_)));
}

TEST_P(CheckerTest, FileIdOnTwoSites) {
  AttributeCell copy = volume_.cell(file_);
  copy.self.cell.site = beside(copy.self.cell.site);
  volume_.others()[attribute_key(copy.self.cell.site, file_)] = encode(copy);
  EXPECT_THAT(found(), UnorderedElementsAre(text(Kind::kSequence, file_), text(Kind::kDuplicate, file_)));
}

TEST_P(CheckerTest, NoRoot) {
  volume_.erase(kRootId);
  EXPECT_THAT(found(), ::testing::IsSupersetOf(
                           {text(Kind::kRoot, kRootId), text(Kind::kNoDirectory, kRootId, "docs")}));
}

TEST_P(CheckerTest, ValuesThatDoNotDecode) {
  auto cells = volume_.stored();
  std::string file = attribute_key(home_of(file_), file_), name = volume_.key_of(deep_, "linked");
  std::string sequence = sequence_key(home_of(linked_));
  cells[file].pop_back();
  cells[name] = "nonsense";
  cells[sequence] += "x";
  cells[duplicate_key(SiteId{3}, 9)] = "?";
  cells[attribute_key(SiteId{3}, FileId{1}).substr(0, 4) + "Zabc"] = "no such kind";
  cells[name_key(SiteId{3}, FileId{1}, Position{1}).substr(0, 9)] = "a short key";
  Report report = check_cells(cells);
  std::multiset<std::string> corrupt;
  for (const Finding& finding : report.findings()) {
    if (finding.kind == Kind::kCorrupt) corrupt.insert(finding.what.substr(0, finding.what.find(':')));
  }
  for (const std::string& key : {file, name, sequence})
    EXPECT_TRUE(corrupt.contains(key_text(key))) << key_text(key);
  EXPECT_TRUE(corrupt.contains("site 3 D 0x0000000000000009"));
  EXPECT_TRUE(corrupt.contains("site 3 Z 0x616263"));
  EXPECT_TRUE(corrupt.contains("site 3 N 0x00000000"));
}

TEST_P(CheckerTest, CellsThatCannotBeReadAreSteppedOver) {
  unreadable_ = {attribute_key(home_of(file_), file_), volume_.key_of(deep_, "linked")};
  Report report = check();
  EXPECT_GE(report.count(Kind::kUnreadable), 2u);
  // What is known of the unread cells' counterparts, and nothing else.
  for (const Finding& finding : report.findings()) {
    bool counts = finding.file == deep_ || finding.file == linked_ || finding.file == file_;
    EXPECT_TRUE(finding.kind == Kind::kUnreadable || counts) << kind_name(finding.kind) << finding.what;
  }
  EXPECT_EQ(report.totals.files, 401u) << "everything else was read";
}

TEST_P(CheckerTest, RecordsOfOperationsUnderWayAreNoDamage) {
  TransactionId decided{SiteId{5}, 11, 1}, undecided{SiteId{5}, 11, 2};
  SiteId site = home_of(file_);
  volume_.others()[intention_key(decided)] = encode(IntentionRecord{decided, {site}});
  volume_.others()[prepared_key(site, decided)] =
      encode(PreparedRecord{.id = decided, .what = {.site = site, .steps = {}}});
  volume_.others()[prepared_key(site, undecided)] =
      encode(PreparedRecord{.id = undecided, .what = {.site = site, .steps = {}}});
  volume_.others()[owed_touch_key(beside(home_of(docs_)), docs_)] =
      encode(OwedTouch{volume_.cell(docs_).self.cell, 3});
  Report report = check();
  EXPECT_TRUE(report.clean());
  std::string all;
  for (const Finding& finding : std::exchange(unfinished_, {})) all += finding.what + "\n";
  EXPECT_THAT(all, HasSubstr("is decided and not carried out here yet"));
  EXPECT_THAT(all, HasSubstr("is decided; 1 of 1 sites"));
  EXPECT_THAT(all, HasSubstr("is prepared and not decided: it is taken back"));
  EXPECT_THAT(all, HasSubstr("has still to be told"));
}

TEST_P(CheckerTest, LocksAreOfFiles) {
  ClientLocks locks;
  locks.lock({.owner = {{1, "host"}, 2, "owner"}, .range = {0, 9}, .exclusive = true});
  const FileId none{home_of(file_).value * (std::uint64_t{1} << 48) + 0xfffff};
  volume_.others()[client_locks_key(home_of(file_), file_)] = encode(locks);
  EXPECT_THAT(found(), IsEmpty());
  volume_.others()[client_locks_key(home_of(docs_), docs_)] = encode(locks);
  volume_.others()[client_locks_key(home_of(none), none)] = encode(locks);
  EXPECT_THAT(found(), UnorderedElementsAre(text(Kind::kLocks, docs_), text(Kind::kLocks, none)));
}

TEST_P(CheckerTest, ADecidedChangeExplainsWhatItWillMend) {
  // The name is gone at one site; the attribute cell is still to go at another.
  volume_.entry(docs_, "file").target = volume_.cell(linked_).self;
  ++volume_.cell(linked_).nlink;
  TransactionId id{SiteId{5}, 11, 1};
  SiteId site = home_of(file_);
  SiteSteps what{site, {CellStep{.how = CellStep::How::kErase, .cell = volume_.cell(file_)}}};
  volume_.others()[prepared_key(site, id)] = encode(PreparedRecord{.id = id, .what = what});
  EXPECT_THAT(found(), ElementsAre(text(Kind::kOrphan, file_))) << "not decided: it mends nothing";
  volume_.others()[intention_key(id)] = encode(IntentionRecord{id, {site}});
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_THAT(std::exchange(unfinished_, {}), SizeIs(3));
}

TEST_P(CheckerTest, LostIntentions) {
  TransactionId lost{SiteId{5}, 11, 1}, nowhere{SiteId{64}, 11, 2}, wide{SiteId{5}, 11, 3},
      moved{SiteId{5}, 11, 4};
  SiteId site{7};
  auto prepared = [&](const TransactionId& id) {
    return encode(PreparedRecord{.id = id, .what = {.site = site, .steps = {}}});
  };
  volume_.others()[intention_key(lost)] = encode(IntentionRecord{lost, {}});
  volume_.others()[prepared_key(site, lost)] = prepared(lost);
  volume_.others()[prepared_key(site, nowhere)] = prepared(nowhere);
  volume_.others()[intention_key(wide)] = encode(IntentionRecord{wide, {SiteId{64}}});
  volume_.others()[intention_key(moved)] = encode(IntentionRecord{wide, {}});
  Report report = check();
  unfinished_.clear();
  EXPECT_EQ(report.damage(), 4u);
  EXPECT_EQ(report.count(Kind::kIntention), 4u);
}

TEST_P(CheckerTest, ManyPassesFindWhatOneFinds) {
  std::mt19937 random(7);
  auto cells = volume_.stored();
  for (int i = 0; i < 60; ++i) {
    auto at = std::next(cells.begin(), static_cast<std::ptrdiff_t>(random() % cells.size()));
    switch (random() % 3) {
      case 0:
        cells.erase(at);
        break;
      case 1:
        at->second[random() % at->second.size()] ^= static_cast<char>(1 << random() % 8);
        break;
      default:
        cells[at->first.substr(0, at->first.size() - 1) + "!"] = at->second;
    }
  }
  Report one = check_cells(cells);
  EXPECT_EQ(one.passes, 1u);
  EXPECT_GT(one.damage(), 60u);
  for (std::uint64_t bytes : {8000, 2000, 300}) {
    Report many = check_cells(cells, {.table_bytes = bytes});
    EXPECT_GT(many.passes, 10'000u / bytes);
    EXPECT_EQ(render_text(many, "x").substr(0, render_text(many, "x").find("\nx:")),
              render_text(one, "x").substr(0, render_text(one, "x").find("\nx:")));
    EXPECT_EQ(many.totals.names, one.totals.names);
    EXPECT_EQ(many.totals.files, one.totals.files);
  }
  unfinished_.clear();
}

// Whatever lies in a store: an answer, and no crash.
TEST_P(CheckerTest, RandomDamageNeverCrashes) {
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    auto cells = volume_.stored();
    for (int i = 0; i < 40; ++i) {
      auto at = std::next(cells.begin(), static_cast<std::ptrdiff_t>(random() % cells.size()));
      std::string key = at->first, value = at->second;
      for (int n = 0; n < 3; ++n) value[random() % value.size()] = static_cast<char>(random());
      if (random() % 2 == 0) key[4 + random() % (key.size() - 4)] = static_cast<char>(random());
      if (random() % 4 == 0) value.resize(random() % (value.size() + 1));
      cells[key] = value;
    }
    EXPECT_FALSE(check_cells(cells).clean());
  }
  unfinished_.clear();
}

TEST_P(CheckerTest, CountsWhatItDoesNotList) {
  for (int i = 0; i < 20; ++i) volume_.erase(volume_.create(docs_, "gone" + std::to_string(i)));
  Report report = check({.limit = 5});
  EXPECT_THAT(report.findings(), SizeIs(5));
  EXPECT_EQ(report.damage(), 20u);
  EXPECT_THAT(render_text(report, "offline"), HasSubstr("and 15 findings more"));
}

TEST_P(CheckerTest, SaysThatSuspicionsWereTooMany) {
  for (int i = 0; i < 200; ++i) volume_.erase(volume_.create(docs_, "gone" + std::to_string(i)));
  Report report = check({.suspect_bytes = 0});
  EXPECT_FALSE(report.clean());
  EXPECT_FALSE(report.complete());
  EXPECT_THAT(render_text(report, "offline"), HasSubstr("more --memory would"));
}

TEST_P(CheckerTest, Renders) {
  volume_.entry(docs_, "file").name = "a\"b\n\xff";
  Report report = check();
  EXPECT_THAT(render_text(report, "offline"), HasSubstr("name \"a\\\"b\\x0a\xff\""));
  std::string json = render_json(report, "offline");
  EXPECT_THAT(json, HasSubstr("\"kind\": \"misplaced\""));
  EXPECT_THAT(json, HasSubstr("\"clean\": false"));
}

INSTANTIATE_TEST_SUITE_P(Policies, CheckerTest,
                         ::testing::Values(Policy::kMkdirSwitching, Policy::kNameHashing),
                         [](const auto& tested) {
                           return tested.param == Policy::kNameHashing ? "NameHashing" : "MkdirSwitching";
                         });

// What only name hashing has.
class PartsTest : public CheckerTest {
 protected:
  // A part of docs with a subdirectory in it.
  std::string part_with_subdirectory() {
    for (const auto& [key, part] : volume_.parts()) {
      if (file_of(key) == docs_ && part.subdirectories > 0) return key;
    }
    ADD_FAILURE() << "no such part";
    return {};
  }
};

TEST_P(PartsTest, CountsOfAPart) {
  ++volume_.parts().at(part_key(volume_.place(docs_, "also").site, docs_)).entries;
  EXPECT_THAT(found(), ElementsAre(text(Kind::kPart, docs_)));
}

TEST_P(PartsTest, PartThatIsMissing) {
  std::string key = part_with_subdirectory();
  std::uint64_t subdirectories = volume_.parts().at(key).subdirectories;
  volume_.parts().erase(key);
  EXPECT_GT(subdirectories, 0u);
  EXPECT_THAT(found(), UnorderedElementsAre(text(Kind::kPart, docs_), text(Kind::kKnownPart, docs_)));
}

TEST_P(PartsTest, PartsWhereNoneCanBe) {
  PartCell part{volume_.cell(docs_).self.cell, 1, 0};
  SiteId empty{0};
  while (empty == home_of(docs_) || volume_.parts().contains(part_key(empty, docs_))) empty = beside(empty);
  volume_.parts()[part_key(empty, docs_)] = part;                      // without names
  volume_.parts()[part_key(home_of(docs_), docs_)] = part;             // on the directory's own site
  volume_.parts()[part_key(empty, FileId{docs_.value + 999})] = part;  // of no directory
  EXPECT_THAT(found(), UnorderedElementsAre(text(Kind::kPart, docs_), text(Kind::kPart, docs_),
                                            text(Kind::kNoDirectory, FileId{docs_.value + 999})));
}

TEST_P(PartsTest, PartOfAnotherGeneration) {
  volume_.parts().at(part_with_subdirectory()).directory.generation ^= 2;
  EXPECT_THAT(found(), ElementsAre(text(Kind::kPart, docs_)));
}

TEST_P(PartsTest, WhatTheDirectoryKnowsOfAPart) {
  std::string key = part_with_subdirectory();
  ++volume_.known().at(known_part_key(home_of(docs_), docs_, site_of(key))).subdirectories;
  EXPECT_THAT(found(), UnorderedElementsAre(text(Kind::kLinkCount, docs_), text(Kind::kKnownPart, docs_)));
  ++volume_.cell(docs_).nlink;
  EXPECT_THAT(found(), ElementsAre(text(Kind::kKnownPart, docs_)));
  volume_.others()[owed_touch_key(site_of(key), docs_)] = encode(OwedTouch{volume_.cell(docs_).self.cell, 3});
  EXPECT_THAT(found(), IsEmpty()) << "the part owes it the news";
  EXPECT_THAT(std::exchange(unfinished_, {}), SizeIs(1));
}

TEST_P(PartsTest, KnownPartsWhereNoneCanBe) {
  FileId none{docs_.value + 999};
  volume_.known()[known_part_key(home_of(docs_), none, SiteId{1})] = {};
  volume_.known()[known_part_key(home_of(docs_), docs_, home_of(docs_))] = {};
  volume_.known()[known_part_key(home_of(docs_), docs_, SiteId{64})] = {};
  EXPECT_THAT(found(), UnorderedElementsAre(text(Kind::kKnownPart, none), text(Kind::kKnownPart, docs_),
                                            text(Kind::kKnownPart, docs_)));
}

INSTANTIATE_TEST_SUITE_P(NameHashing, PartsTest, ::testing::Values(Policy::kNameHashing));

}  // namespace
}  // namespace slice::dirserver::fsck
