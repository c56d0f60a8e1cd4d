#include "storage/checkpoint_format.h"

#include <gtest/gtest.h>

#include <random>

namespace slice::storage::checkpoint_format {
namespace {

WriteBatch sample() {
  WriteBatch batch;
  batch.put("key", "value");
  batch.put("", "");
  batch.erase("gone");
  return batch;
}

TEST(CheckpointFormat, BatchesComeBack) {
  const Buffer record = encode_batch(7, sample());
  auto batch = decode_batch(record.view());
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->run, 7u);
  ASSERT_EQ(batch->changes.changes().size(), 3u);
  EXPECT_EQ(batch->changes.changes()[0].key, "key");
  EXPECT_EQ(batch->changes.changes()[0].value, "value");
  EXPECT_EQ(batch->changes.changes()[1].value, "");
  EXPECT_EQ(batch->changes.changes()[2].key, "gone");
  EXPECT_FALSE(batch->changes.changes()[2].value);
}

TEST(CheckpointFormat, CheckpointsComeBack) {
  const Checkpoint checkpoint{
      .position = {5, 6},
      .number = 7,
      .lineage = 8,
      .files = {{"000012.sst", "a-000012.sst", 1ull << 40, 9}, {"CURRENT", "b", 0, 0}}};
  auto again = decode_checkpoint(encode(checkpoint).view());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->position, checkpoint.position);
  EXPECT_EQ(again->number, 7u);
  EXPECT_EQ(again->lineage, 8u);
  ASSERT_EQ(again->files.size(), 2u);
  EXPECT_EQ(again->files[0].stored, "a-000012.sst");
  EXPECT_EQ(again->files[0].size, 1ull << 40);
}

TEST(CheckpointFormat, NamesOfFilesNameNoFolders) {
  for (const char* name : {"", ".", "..", "a/b", "/etc/passwd", "../up"}) {
    EXPECT_FALSE(decode_checkpoint(encode(Checkpoint{.files = {{name, "x", 0, 0}}}).view())) << name;
    EXPECT_FALSE(decode_checkpoint(encode(Checkpoint{.files = {{"x", name, 0, 0}}}).view())) << name;
  }
}

TEST(CheckpointFormat, WhatIsCutOrChangedDoesNoHarm) {
  const Buffer batch = encode_batch(7, sample());
  const Buffer list = encode(Checkpoint{.files = {{"a", "b", 1, 2}, {"c", "d", 3, 4}}});
  for (std::size_t n = 0; n < batch.size(); ++n)
    EXPECT_FALSE(decode_batch(Buffer(batch.view().first(n)).view()));
  for (std::size_t n = 0; n < list.size(); ++n)
    EXPECT_FALSE(decode_checkpoint(Buffer(list.view().first(n)).view()));
  EXPECT_FALSE(decode_position("short"));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    for (const Buffer* each : {&batch, &list}) {
      Buffer changed = each->clone();
      for (int i = 0; i < 3; ++i)
        changed.data()[random() % changed.size()] = static_cast<std::uint8_t>(random());
      (void)decode_batch(changed.view());
      (void)decode_checkpoint(changed.view());
    }
  }
}

}  // namespace
}  // namespace slice::storage::checkpoint_format
