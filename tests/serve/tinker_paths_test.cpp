// tinker:// paths: what they may say, and that none leaves the root.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "fuzz/mutate.h"
#include "model/tiny_model.h"
#include "serve/tinker/paths.h"
#include "serve/tinker/store.h"

namespace hone::serve {
namespace tinker_paths_test {

using namespace hone::test_tools;

TEST(TinkerPaths, PartsAndFolders) {
  const TinkerPath path = parse_tinker_path("tinker://s1:train:0/sampler_weights/step-1");
  EXPECT_EQ(path.run, "s1:train:0");
  EXPECT_EQ(path.kind, WeightsKind::kSampler);
  EXPECT_EQ(path.name, "step-1");
  EXPECT_EQ(path.text(), "tinker://s1:train:0/sampler_weights/step-1");
  EXPECT_EQ(folder_of("/root", path), fs::path("/root/s1+train+0/sampler_weights/step-1"));
  EXPECT_EQ(name_of_folder("s1+train+0"), "s1:train:0");
  EXPECT_FALSE(name_of_folder(".hone-partial.x"));
}

// Of names and pieces that a client could think of, 300 and more.
TEST(TinkerPaths, NoneLeavesTheRoot) {
  const std::vector<std::string> pieces = {"..",
                                           ".",
                                           "",
                                           "/",
                                           "//etc",
                                           "%2e%2e",
                                           "..%2f",
                                           "\\..",
                                           "a/../..",
                                           "~",
                                           "a b",
                                           std::string("a\0b", 3),
                                           std::string(129, 'a'),
                                           "\xC3\xA9",
                                           "\n",
                                           "$HOME",
                                           ".hidden",
                                           "+",
                                           "a+b"};
  std::size_t refused = 0;
  for (const std::string& piece : pieces) {
    for (const std::string& other : pieces) {
      for (const std::string& text :
           {"tinker://" + piece + "/weights/" + other, "tinker://a/" + piece + "/" + other}) {
        EXPECT_NE(user_error([&] { parse_tinker_path(text); }), "") << text;
        ++refused;
      }
    }
  }
  for (const char* text :
       {"", "tinker:", "file:///etc/passwd", "/etc/passwd", "tinker://a/weights", "tinker://a/weights/b/c",
        "tinker://a/external_weights/b", "TINKER://a/weights/b", " tinker://a/weights/b"})
    EXPECT_NE(user_error([&] { parse_tinker_path(text); }), "") << text;
  EXPECT_GT(refused, 300U);
  for (const char* text :
       {"tinker://a/weights/b", "tinker://s1:train:0/weights/0001", "tinker://A_-.9/sampler_weights/x.y"})
    EXPECT_EQ(user_error([&] { parse_tinker_path(text); }), "") << text;
}

TEST(TinkerPaths, LinksAreNotFollowed) {
  TempFolder folder;
  const fs::path root = folder.path() / "root", outside = folder.path() / "outside";
  fs::create_directories(outside / "weights" / "b");
  write_json(outside / "weights" / "b" / "saved.json", base::Json::object());
  fs::create_directories(root);
  fs::create_directory_symlink(outside, root / "a");
  EXPECT_SAYS(user_error([&] { existing_folder(root, parse_tinker_path("tinker://a/weights/b")); }),
              "a link");
  EXPECT_SAYS(user_error([&] { make_parents(root, parse_tinker_path("tinker://a/weights/c")); }), "a link");
  fs::create_directories(root / "c" / "weights" / "d");
  fs::create_symlink("/etc/passwd", root / "c" / "weights" / "d" / "saved.json");
  EXPECT_SAYS(user_error([&] { existing_folder(root, parse_tinker_path("tinker://c/weights/d")); }),
              "a link");
  EXPECT_TRUE(Store(root).saved("c").empty());
  EXPECT_FALSE(Store(root).run("a"));
}

TEST(TinkerPaths, TimeToLive) {
  TempFolder folder;
  const Store store(folder.path());
  SavedFacts facts{.path = parse_tinker_path("tinker://r/weights/n"), .time = now_seconds()};
  facts.run = {.id = "r", .base_model = "m", .lora = {}, .user_metadata = {{"who", "me"}}};
  const auto write = [](const fs::path& to) { write_json(to / "x.json", 1); };
  store.save(facts, false, write);
  EXPECT_SAYS(user_error([&] { store.save(facts, false, write); }), "overwrite");
  EXPECT_EQ(store.read(facts.path).run.user_metadata, (base::Json{{"who", "me"}}));
  store.set_expiry(facts.path, now_seconds() - 1);
  EXPECT_SAYS(user_error([&] { store.read(facts.path); }), "ttl_seconds");
  EXPECT_TRUE(store.saved("r").empty());
  EXPECT_EQ(store.run("r")->base_model, "m");
  EXPECT_EQ(iso_time(1795694400), "2026-11-26T12:00:00Z");
}

TEST(TinkerPathsFuzz, Texts) {
  fuzz::run(fuzz::seconds(0.5), {"tinker://s1:train:0/weights/step-1"}, fuzz::mutated_bytes,
            [](const std::string& text) {
              const fs::path folder = folder_of("/root", parse_tinker_path(text));
              EXPECT_EQ(folder.lexically_normal(), folder);
              EXPECT_EQ(std::distance(folder.begin(), folder.end()), 5);
            });
}

}  // namespace tinker_paths_test
}  // namespace hone::serve
