#include "service/client_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slice::service {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ClientFigures, AreNotThereUnlessTheyAreWanted) {
  Metrics metrics;
  ClientFigures figures(metrics, 0);
  figures.count(0x0a4d0105, 100, 200);
  EXPECT_EQ(metrics.text(), "");
}

TEST(ClientFigures, HaveABoundedNumberOfClients) {
  Metrics metrics;
  ClientFigures figures(metrics, 2);
  for (std::uint32_t i = 0; i < 1000; ++i) figures.count(0x0a4d0105 + i, 100, 200);
  figures.count(0x0a4d0105, 1, 2);
  EXPECT_EQ(metrics.counter("nfs_client_calls_total{client=\"10.77.1.5\"}").value(), 2u);
  EXPECT_EQ(metrics.counter("nfs_client_received_bytes_total{client=\"10.77.1.5\"}").value(), 101u);
  EXPECT_EQ(metrics.counter("nfs_client_sent_bytes_total{client=\"10.77.1.5\"}").value(), 202u);
  EXPECT_EQ(metrics.counter("nfs_client_calls_total{client=\"10.77.1.6\"}").value(), 1u);
  EXPECT_EQ(metrics.counter("nfs_client_calls_total{client=\"other\"}").value(), 998u);
  EXPECT_THAT(metrics.text(), Not(HasSubstr("10.77.1.7")));
}

}  // namespace
}  // namespace slice::service
