// The page as text: nothing of the data leaves its element, and no script runs but the program's own.
#include "report/page/page_text.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "report/page/page_assets.h"
#include "report/page/page_data.h"

namespace hone::report {
namespace page_text_test {

using base::Json;

TEST(PageText, Base64OfAHash) {
  EXPECT_EQ(base64_of_hex(""), "");
  EXPECT_EQ(base64_of_hex("00"), "AA==");
  EXPECT_EQ(base64_of_hex("666f"), "Zm8=");
  EXPECT_EQ(base64_of_hex("666f6f"), "Zm9v");
  EXPECT_EQ(base64_of_hex("fbff"), "+/8=");
}

TEST(PageText, JsonForAScriptHasTheSameValue) {
  const Json hostile = {"</script><script>alert(1)</script>",
                        "<!--",
                        "a & b > c",
                        "\xE2\x80\xA8\xE2\x80\xA9",
                        "\xE2\x80\xA6\xE2\x80",
                        "<img src=x onerror=alert(1)>"};
  const std::string text = json_for_script(base::dump_json(hostile));
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(text.find("\xE2\x80\xA8"), std::string::npos);
  EXPECT_EQ(Json::parse(text), Json::parse(base::dump_json(hostile)));
}

TEST(PageText, HasItsPolicyAndOneElementOfData) {
  const std::string page = page_text("{\"a\":\"</script>\"}");
  EXPECT_TRUE(is_page(page));
  EXPECT_FALSE(is_page("<!doctype html>\n<p>mine</p>"));
  EXPECT_NE(page.find("default-src 'none'; script-src 'sha256-" + base64_of_hex(kPageScriptSha256) + "'"),
            std::string::npos);
  EXPECT_NE(page.find("connect-src 'none'; base-uri 'none'; form-action 'none'"), std::string::npos);
  EXPECT_EQ(page.find("unsafe"), std::string::npos);
  EXPECT_NE(page.find("{\"a\":\"\\u003c/script\\u003e\"}</script>"), std::string::npos);
  EXPECT_EQ(page.find("@data@"), std::string::npos);
  std::size_t ends = 0;
  for (std::size_t at = page.find("</script"); at != std::string::npos; at = page.find("</script", at + 1))
    ++ends;
  EXPECT_EQ(ends, 2U) << "of the data, and of the script";
}

TEST(PageText, OpensNoConnection) {
  EXPECT_EQ(kPageFrame.find("http"), kPageFrame.find("http-equiv"));
  for (const std::string_view part : {kPageFrame, kPageStyle}) {
    for (const char* word : {"http:", "https:", "//cdn", "@import", "url("})
      EXPECT_EQ(part.find(word), std::string_view::npos) << word;
  }
  for (const char* word : {"fetch(", "XMLHttpRequest", "WebSocket", "EventSource", "innerHTML",
                           "insertAdjacentHTML", "document.write", "eval(", "importScripts"})
    EXPECT_EQ(kPageScript.find(word), std::string_view::npos) << word;
}

class PageData : public testing::Test {
 protected:
  Json data(const std::string& metrics) {
    return Json::parse(page_data({run(metrics)}, {.written = 5, .refresh_seconds = 3}));
  }
  PageRun run(const std::string& name) { return {.name = name, .method = "sft", .metrics = &metrics_}; }
  static void add(RunMetrics& metrics, const std::string& name,
                  const std::vector<std::pair<int, double>>& points) {
    Series series;
    for (const auto& [step, value] : points) series.add(step, value);
    metrics.series.emplace_back(name, series);
  }
  RunMetrics metrics_;
};

TEST_F(PageData, SeriesOfTheSameStepsShareThem) {
  add(metrics_, "loss", {{1, 2.5}, {2, 1.23456789}});
  add(metrics_, "grad_norm", {{1, 1}, {2, 1e-9}});
  add(metrics_, "eval_loss", {{2, 3}});
  add(metrics_, "empty", {{1, std::nan("")}});
  const Json page = data("runs/first");
  EXPECT_EQ(page["written"], 5);
  EXPECT_EQ(page["refresh"], 3);
  const Json& one = page["runs"][0];
  EXPECT_EQ(one["name"], "runs/first");
  EXPECT_EQ(one["state"], "running");
  EXPECT_EQ(one["x"], Json::parse("[[1,2],[2]]"));
  ASSERT_EQ(one["series"].size(), 3U) << "without a value there is no series";
  EXPECT_EQ(one["series"][0]["mean"], Json::parse("[2.5,1.23457]"));
  EXPECT_EQ(one["series"][0]["lowest"], Json::parse("[2,1.23457]"));
  EXPECT_FALSE(one["series"][0].contains("low"));
  EXPECT_EQ(one["series"][1]["x"], 0);
  EXPECT_EQ(one["series"][2]["x"], 1);
}

TEST_F(PageData, StaysSmallWhateverTheNumberOfSeriesAndSteps) {
  for (int k = 0; k < 300; ++k) {
    Series series;
    for (int step = 1; step <= 3'000; ++step) series.add(step, -1.23456789e-7 * step * (k + 1));
    metrics_.series.emplace_back("rewards/function_of_mine_" + std::to_string(k) + "/mean", series);
  }
  const std::string text = page_data({run("a"), run("b")}, {});
  EXPECT_LT(text.size(), 3'000'000U);
  const Json page = Json::parse(text);
  EXPECT_TRUE(page["runs"][0]["series"][0].contains("low"));
}

TEST_F(PageData, NamesAndTextsAreMadeVisible) {
  add(metrics_, "bad\x1b[31m\xE2\x80\xAE", {{1, 1}});
  PageRun one = run("runs/\x1b]0;x\x07");
  one.facts.verdicts.emplace_back(
      3, Json{{"code", "RL-01"}, {"what", "a\x1b[2Jb"}, {"repair", Json{{"a", "b"}}}});
  one.plan = {{.name = "seed", .group = "training", .value = "\x9f", .standard = "42", .differs = true},
              {.name = "a", .group = "b", .value = "1", .standard = "1"}};
  const std::string text = page_data({one}, {});
  for (const char c : text) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
  const Json page = Json::parse(text);
  EXPECT_EQ(page["runs"][0]["name"], "runs/\\x1b]0;x\\x07");
  EXPECT_EQ(page["runs"][0]["verdicts"][0]["what"], "a\\x1b[2Jb");
  EXPECT_FALSE(page["runs"][0]["verdicts"][0].contains("repair"));
  EXPECT_EQ(page["runs"][0]["plan"][0]["standard"], "42");
  EXPECT_FALSE(page["runs"][0]["plan"][1].contains("standard"));
}

}  // namespace page_text_test
}  // namespace hone::report
