// What `convert`, `merge` and `export` write is whole or absent, wherever a kill or a power cut stops them.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file_trace.h"
#include "base/files/staging.h"
#include "model/files/export.h"
#include "model/files/gguf_write.h"

namespace hone::model {
namespace written_whole_test {

namespace fs = base::fs;
using trace::Tree;

class WrittenWholeTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_ / "here"); }
  void TearDown() override { fs::remove_all(root_); }
  // Every tree that may be left holds nothing under `name`, or all of it.
  void check(const std::string& name, const std::function<void(const fs::path&)>& write) {
    write(root_ / "whole" / name);
    const Tree whole = trace::tree_of(root_ / "whole");
    const auto trees = trace::at_every_cut(
        root_ / "here", root_ / "cut", [&] { write(root_ / "here" / name); },
        [&](bool finished) {
          base::StagedFolder::recover(root_ / "cut" / name);
          if (!fs::exists(root_ / "cut" / name)) {
            EXPECT_FALSE(finished);
            return;
          }
          fs::remove(base::staging_path(root_ / "cut" / name));  // of a file, the next writer removes it
          EXPECT_TRUE(trace::tree_of(root_ / "cut") == whole);
        });
    EXPECT_GE(trees, 4U);
  }

  const fs::path root_ = trace::scratch("hone_written_whole");
  const std::unique_ptr<WeightSource> source_ = open_weights(fs::path(HONE_FIXTURES) / "parity/tiny_llama");
};

TEST_F(WrittenWholeTest, AFolder) {
  check("model", [&](const fs::path& out) { write_hf_folder(*source_, out, {.shard_bytes = 200'000}); });
}

TEST_F(WrittenWholeTest, AGguf) {
  fs::create_directories(root_ / "whole");
  check("m.gguf", [&](const fs::path& out) { write_gguf(*source_, out, GgufWeights::kBF16); });
}

}  // namespace written_whole_test
}  // namespace hone::model
