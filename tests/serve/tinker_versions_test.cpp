// Weights that clients sample from: in memory within a bound, for as long as their session lives.
#include <gtest/gtest.h>

#include "base/process/address_sanitizer.h"
#include "base/process/process_memory.h"
#include "serve/tinker_server.h"

namespace hone::serve {
namespace tinker_versions_test {

using namespace tinker_server;

std::string new_sampler(Server& server, const std::string& model, int seq, int number) {
  const Json saved = server.post("save_weights_for_sampler",
                                 {{"model_id", model}, {"seq_id", seq}, {"sampling_session_seq_id", number}});
  return server.result(saved.at("request_id")).at("sampling_session_id");
}

std::vector<std::int32_t> drawn(Server& server, const std::string& sampler, int seq) {
  Json request = sample_request(sampler, seq, 1, 16);
  request["sampling_params"]["seed"] = 7;
  return numbers<std::int32_t>(
      field(server.poll(server.post("asample", request).at("request_id")).body, {1, 2}));
}

// A loop calls save_weights_and_get_sampling_client at each step.
TEST(TinkerVersions, MemoryIsFlatOverTwoHundredSamplers) {
  TempFolder root;
  TinkerOptions options;
  options.adapter_memory = std::int64_t{8} << 20;
  Server server(options, root.path());
  const std::string session = server.new_session(), model = server.new_model(session, 0, true, 64);
  std::vector<std::string> samplers;
  std::vector<std::vector<std::int32_t>> tokens;
  [[maybe_unused]] std::int64_t begin = 0;
  int seq = 0;
  for (int i = 0; i < 200; ++i) {
    if (i % 40 == 0) {
      server.train(model, ++seq, {kText});
      server.step(model, ++seq);
    }
    samplers.push_back(new_sampler(server, model, ++seq, i));
    if (i % 20 == 0) tokens.push_back(drawn(server, samplers.back(), 0));
    EXPECT_LE(server.versions().bytes, options.adapter_memory);
    if (i == 20) begin = base::process_memory().resident;
  }
  const KeptFacts facts = server.versions();
  EXPECT_EQ(facts.versions, 200);
  EXPECT_GT(facts.file_bytes, std::int64_t{64} << 20) << "the test's versions are too small";
  if (!base::kHasAddressSanitizer) {  // which does not give freed memory away at once
    EXPECT_LT(base::process_memory().resident - begin, std::int64_t{24} << 20);
  }
  EXPECT_NE(tokens.front(), tokens.back());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    EXPECT_EQ(drawn(server, samplers[20 * i], 1), tokens[i]) << i;  // from the file, in the same bits
  EXPECT_EQ(server.ask("sessions/" + session + "/finish", {{"reason", {{"type", "success"}}}}).status, 204);
  EXPECT_EQ(server.versions().versions, 0);
  EXPECT_EQ(server.versions().file_bytes, 0);
}

TEST(TinkerVersions, ManyAtOnceWaitForMemory) {
  TempFolder root;
  TinkerOptions options;
  options.adapter_memory = 1;  // one at a time
  Server server(options, root.path());
  const std::string session = server.new_session(), model = server.new_model(session);
  const std::string first = new_sampler(server, model, 1, 0), second = new_sampler(server, model, 2, 1);
  const Json running = server.post("asample", sample_request(first, 0, 1, 200));
  const HttpAnswer busy = server.ask("asample", sample_request(second, 0));
  EXPECT_EQ(busy.status, 429) << busy.body;
  server.poll(running.at("request_id"));
  HttpAnswer again = busy;
  for (int i = 0; i < 1000 && again.status == 429; ++i)
    again = server.ask("asample", sample_request(second, 0));
  EXPECT_EQ(again.status, 200) << again.body;
  EXPECT_EQ(server.poll(second + ":0").status, 200);
}

TEST(TinkerVersions, AFileThatCannotBeMadeIsToldThroughTheFuture) {
  TempFolder root;
  base::write_file_atomic(root.path() / "file", "not a folder");
  TinkerOptions options;
  options.adapter_memory = 1;
  Server server(options, root.path() / "file");
  const std::string session = server.new_session(), model = server.new_model(session);
  const Json saved = server.post("save_weights_for_sampler",
                                 {{"model_id", model}, {"seq_id", 1}, {"sampling_session_seq_id", 0}});
  const Json said = server.result(saved.at("request_id"));
  EXPECT_NE(said.at("error").get<std::string>().find("--adapter_memory"), std::string::npos) << said;
  EXPECT_EQ(said.at("error").get<std::string>().find(root.path().string()), std::string::npos) << said;
  server.train(model, 2, {kText});
  EXPECT_EQ(server.result(server.step(model, 3)).at("metrics").at("step:max"), 1);
}

}  // namespace tinker_versions_test
}  // namespace hone::serve
