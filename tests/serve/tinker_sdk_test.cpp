// The real tinker SDK over the real network, against a tiny model: tests/serve/tinker_sdk.py. It needs
// third_party/serve-venv (tests/serve/requirements.txt).
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "base/json.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"
#include "serve/http.h"
#include "serve/scheduler.h"
#include "serve/tinker/api.h"

namespace hone::serve {
namespace tinker_sdk_test {

using namespace hone::test_tools;

const std::string kPython = std::string(HONE_SOURCE_DIR) + "/third_party/serve-venv/bin/python";

class Server {
 public:
  explicit Server(const fs::path& folder) {
    model_ = std::make_unique<model::CausalLm>(
        *model::open_weights(folder / "model"),
        model::DtypePolicy{.linear = at::kBFloat16, .residual = at::kBFloat16}, model::Storage::kPacked);
    scheduler_ = std::make_unique<Scheduler>(*model_, SchedulerOptions{});
    compute_ = std::make_unique<ScheduledCompute>(*scheduler_);
    TinkerOptions options;
    options.model_name = "hone/tiny";
    options.root = folder / "root";
    options.stop_ids = {2};
    api_ = std::make_unique<TinkerApi>(*model_, *compute_, options);
    http_ = std::make_unique<HttpServer>(HttpOptions{}, [this](const std::shared_ptr<Exchange>& one) {
      if (api_->takes(one->request)) return api_->handle(one);
      one->answer({.status = 404, .body = "{}"});
    });
  }
  ~Server() {
    http_.reset();
    scheduler_->stop();
    api_.reset();
  }
  // The line that the script prints.
  std::string run(const std::string& more) const {
    const std::string command =
        "env HF_HUB_OFFLINE=1 TINKER_TELEMETRY=0 TINKER_SUBPROCESS_SAMPLING=0 " + kPython + " " +
        HONE_SOURCE_DIR + "/tests/serve/tinker_sdk.py http://127.0.0.1:" + std::to_string(http_->port()) +
        " hone/tiny" + more;
    std::FILE* const pipe = popen(command.c_str(), "r");
    std::string out;
    char part[4096];
    while (std::fgets(part, sizeof(part), pipe) != nullptr) out += part;
    EXPECT_EQ(pclose(pipe), 0) << out;
    return out;
  }

 private:
  std::unique_ptr<model::CausalLm> model_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ScheduledCompute> compute_;
  std::unique_ptr<TinkerApi> api_;
  std::unique_ptr<HttpServer> http_;
};

TEST(TinkerSdk, LoopLossesBitsAndResume) {
  if (!fs::exists(kPython))
    GTEST_SKIP() << "no third_party/serve-venv: pip install -r tests/serve/requirements.txt";
  TempFolder folder;
  base::Json config = wide_config("qwen2");
  config["max_position_embeddings"] = 256;
  write_model(folder.path() / "model", config);
  base::Json first;
  {
    const Server server(folder.path());
    first = base::parse_json(server.run(""), "the script");
  }
  const Server again(folder.path());  // as after a kill: only the files are left
  const auto second = base::parse_json(again.run(" " + first.at("path").get<std::string>()), "the script");
  EXPECT_TRUE(second.contains("further"));
}

}  // namespace tinker_sdk_test
}  // namespace hone::serve
