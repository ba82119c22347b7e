// The Tinker API over a real compute thread, with exchanges in place of a network: the SDK's loop, the order
// of requests, what is sent again, what is wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <thread>

#include "fuzz/mutate.h"
#include "serve/tinker_server.h"

namespace hone::serve {
namespace tinker_service_test {

using namespace tinker_server;

TEST(TinkerService, TheLoopOfTheSdk) {
  Server server;
  server.post("client/config", {{"sdk_version", "0.38.0"}});
  const std::string session = server.new_session(), model = server.new_model(session);
  const Json info = server.post("get_info", {{"model_id", model}});
  EXPECT_EQ(info.at("lora_rank"), 4);
  EXPECT_EQ(info.at("model_data").at("tokenizer_id"), "hone/tiny");
  const std::string trained = server.train(model, 1, {kText, {7, 8, 9}});
  const std::string stepped = server.step(model, 2);
  const Json saved =
      server.post("save_weights_for_sampler",
                  {{"model_id", model}, {"seq_id", 3}, {"sampling_session_seq_id", 0}, {"kind", "snapshot"}});
  const HttpAnswer output = server.poll(trained);
  EXPECT_EQ(output.type, "application/x-protobuf");
  EXPECT_EQ(numbers<float>(field(output.body, {2, 2, 2, 1})).size(), 11U);
  EXPECT_EQ(numbers<std::int64_t>(field(output.body, {2, 2, 2, 2})), (std::vector<std::int64_t>{0, 36, 44}));
  EXPECT_EQ(server.result(stepped).at("metrics").at("step:max"), 1);
  EXPECT_GT(server.result(stepped).at("metrics").at("unclipped_grad_l2:mean"), 0);
  const std::string sampler = server.result(saved.at("request_id")).at("sampling_session_id");
  EXPECT_EQ(sampler, session + ":sample:0");

  // Sampled log-probabilities are those of forward, bit for bit.
  const Json asked = server.post("asample", sample_request(sampler, 0, 3));
  EXPECT_EQ(asked.at("sample_sequence_ids").size(), 3U);
  const HttpAnswer samples = server.poll(asked.at("request_id"));
  const auto drawn = numbers<std::int32_t>(field(samples.body, {1, 2}));
  ASSERT_FALSE(drawn.empty());
  std::vector<std::int32_t> all = kText;
  all.insert(all.end(), drawn.begin(), drawn.end());
  const auto forward =
      numbers<float>(field(server.poll(server.train(model, 4, {all}, true)).body, {2, 2, 2, 1}));
  EXPECT_EQ(
      std::vector<float>(forward.begin() + static_cast<std::ptrdiff_t>(kText.size()) - 1, forward.end()),
      numbers<float>(field(samples.body, {1, 3})));
  EXPECT_EQ(server.ask("sessions/" + session + "/finish", {{"reason", {{"type", "success"}}}}).status, 204);
  EXPECT_EQ(server.ask("get_info", {{"model_id", model}}).status, 404);
}

TEST(TinkerService, PromptLogprobsAndTopTokens) {
  Server server;
  const std::string session = server.new_session();
  const std::string sampler =
      server
          .post("create_sampling_session",
                {{"session_id", session}, {"sampling_session_seq_id", 0}, {"base_model", "hone/tiny"}})
          .at("sampling_session_id");
  Json request = sample_request(sampler, 0, 1, 4);
  request["prompt_logprobs"] = true;
  request["topk_prompt_logprobs"] = 2;
  request["topk_sample_logprobs"] = 3;
  const std::string body = server.poll(server.post("asample", request).at("request_id")).body;
  const auto logprobs = numbers<float>(field(body, {2}));
  ASSERT_EQ(logprobs.size(), kText.size());
  EXPECT_TRUE(std::isnan(logprobs[0]));
  for (std::size_t i = 1; i < logprobs.size(); ++i) EXPECT_LT(logprobs[i], 0);
  const auto top = numbers<float>(field(body, {3, 2}));
  ASSERT_EQ(top.size(), 2 * kText.size());
  EXPECT_EQ(top[0], -99999);
  for (std::size_t i = 1; i < logprobs.size(); ++i) EXPECT_GE(top[2 * i], logprobs[i]);
  EXPECT_EQ(numbers<std::int32_t>(field(body, {1, 4, 1})).size() % 3, 0U);
  // A base sampler and one of a new LoRA, whose B is zero, give the same tokens for a seed.
  const std::string model = server.new_model(session);
  const Json saved = server.post("save_weights_for_sampler",
                                 {{"model_id", model}, {"seq_id", 1}, {"sampling_session_seq_id", 1}});
  const std::string other = server.result(saved.at("request_id")).at("sampling_session_id");
  const auto tokens = [&](const std::string& from, int seq) {
    Json seeded = sample_request(from, seq, 1, 16);
    seeded["sampling_params"]["seed"] = 7;
    return numbers<std::int32_t>(
        field(server.poll(server.post("asample", seeded).at("request_id")).body, {1, 2}));
  };
  EXPECT_EQ(tokens(sampler, 5), tokens(other, 9));
}

TEST(TinkerService, ByTheirNumbersAndOnce) {
  Server server;
  const std::string session = server.new_session(), model = server.new_model(session);
  const std::string second = server.train(model, 2, {{9, 8, 7, 6}}), third = server.step(model, 3);
  EXPECT_EQ(server.train(model, 2, {{9, 8, 7, 6}}), second);  // sent again
  const std::string first = server.train(model, 1, {{1, 2, 3, 4}});
  EXPECT_EQ(server.result(third).at("metrics").at("step:max"), 1);
  EXPECT_EQ(server.step(model, 3), third);  // done, and known
  EXPECT_EQ(server.result(third).at("metrics").at("step:max"), 1);
  EXPECT_EQ(server.poll(first).status, 200);
  // A step without a gradient, and a loss that is not there: through the future, and the model goes on.
  const Json refused = server.result(server.step(model, 4));
  EXPECT_EQ(refused.at("category"), "user");
  EXPECT_SAYS(refused.at("error").get<std::string>(), "forward_backward");
  server.train(model, 5, {{1, 2, 3, 4}});
  EXPECT_EQ(server.result(server.step(model, 6)).at("metrics").at("step:max"), 2);
}

TEST(TinkerService, ChunksOutOfOrderAreOneRequest) {
  Server server;
  const std::string session = server.new_session();
  const std::string whole = server.new_model(session, 0), chunks = server.new_model(session, 1);
  const std::vector<std::vector<std::int32_t>> data = {{1, 2, 3, 4, 5}, {700, 9, 30}, kText};
  server.train(whole, 1, data);
  server.train(chunks, 2, {data[1]});
  server.train(chunks, 3, {data[2]});
  server.train(chunks, 1, {data[0]});
  std::vector<std::string> outputs;
  for (const auto& [model, seq] : std::vector<std::pair<std::string, int>>{{whole, 2}, {chunks, 4}}) {
    server.step(model, seq);
    outputs.push_back(field(server.poll(server.train(model, seq + 1, {kText}, true)).body, {2, 2, 2, 1}));
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

TEST(TinkerService, AGapIsTold) {
  TinkerOptions options;
  options.gap = std::chrono::milliseconds(200);
  Server server(options);
  const std::string session = server.new_session(), model = server.new_model(session);
  const std::string waiting = server.train(model, 3, {{1, 2, 3}});
  EXPECT_SAYS(server.result(waiting).at("error").get<std::string>(), "seq_id 1 of");
  const std::string late = server.train(model, 1, {{1, 2, 3}});
  EXPECT_EQ(server.result(late).at("category"), "user");
  server.train(model, 4, {{1, 2, 3}});
  EXPECT_EQ(server.result(server.step(model, 5)).at("metrics").at("step:max"), 1);
}

TEST(TinkerService, PollsEnd) {
  TinkerOptions options;
  options.futures.poll = std::chrono::milliseconds(100);
  options.futures.large = 75;
  options.futures.keep_fetched = std::chrono::milliseconds(100);
  options.heartbeat = std::chrono::milliseconds(1500);
  Server server(options);
  const std::string session = server.new_session(), model = server.new_model(session);
  const std::string held = server.train(model, 2, {{1, 2, 3}});
  const HttpAnswer again = server.ask("retrieve_future", {{"request_id", held}});
  EXPECT_EQ(again.status, 408);
  EXPECT_EQ(base::parse_json(again.body, "").at("type"), "try_again");
  server.train(model, 1, {{1, 2, 3}});
  const Json announced = server.result(held);
  EXPECT_EQ(announced.at("status"), "complete_metadata");
  EXPECT_GE(announced.at("response_payload_size"), 75);
  EXPECT_EQ(server.ask("retrieve_future", {{"request_id", held}, {"allow_metadata_only", false}}).status,
            200);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(server.ask("retrieve_future", {{"request_id", held}}).status, 410);
  EXPECT_EQ(server.ask("retrieve_future", {{"request_id", "s1:train:0:7"}}).status, 404);
  EXPECT_EQ(server.ask("session_heartbeat", {{"session_id", session}}).status, 200);
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  EXPECT_EQ(server.ask("session_heartbeat", {{"session_id", session}}).status, 410);
  EXPECT_EQ(server.ask("get_info", {{"model_id", model}}).status, 404);
}

TEST(TinkerService, SamplesOfASessionByOnePoll) {
  Server server;
  const std::string session = server.new_session();
  const std::string sampler =
      server
          .post("create_sampling_session",
                {{"session_id", session}, {"sampling_session_seq_id", 0}, {"base_model", "hone/tiny"}})
          .at("sampling_session_id");
  for (int i = 0; i < 4; ++i) server.post("asample", sample_request(sampler, i));
  const Json target = {
      {"type", "sampling_session"}, {"sampling_session_id", sampler}, {"cloned_sampler_id", 0}};
  std::size_t cursor = 0;
  std::set<std::string> finished;
  while (finished.size() < 4) {
    const Json got = server.post("retrieve_futures", {{"target", target}, {"prev_cursor", cursor}});
    for (const Json& one : got.at("completions")) {
      EXPECT_EQ(one.at("state"), "finished");
      finished.insert(one.at("request_id"));
    }
    cursor = got.at("cursor");
  }
  const Json none =
      server.post("retrieve_futures", {{"target", target}, {"prev_cursor", 4}, {"timeout", 0.0}});
  EXPECT_EQ(none, (Json{{"completions", Json::array()}, {"cursor", 4}}));
  server.post("asample", sample_request(sampler, 9, 1, 200));
  EXPECT_EQ(server.ask("cancel_future", {{"request_id", sampler + ":9"}}).status, 204);
  EXPECT_EQ(server.poll(sampler + ":9").status, 200);
}

TEST(TinkerService, SavedLoadedAndListed) {
  TempFolder root;
  std::string path, expected;
  {
    Server server({}, root.path());
    const std::string session = server.new_session(), model = server.new_model(session);
    server.train(model, 1, {kText});
    server.step(model, 2);
    const Json saved = server.post("save_weights", {{"model_id", model},
                                                    {"path", "step-1"},
                                                    {"seq_id", 3},
                                                    {"ttl_seconds", 604800},
                                                    {"overwrite", false}});
    path = server.result(saved.at("request_id")).at("path");
    EXPECT_EQ(path, "tinker://" + model + "/weights/step-1");
    const Json twice = server.post("save_weights", {{"model_id", model}, {"path", "step-1"}, {"seq_id", 4}});
    EXPECT_SAYS(server.result(twice.at("request_id")).at("error").get<std::string>(), "overwrite=True");
    server.train(model, 5, {{4, 5, 6}});
    server.step(model, 6);
    expected = field(server.poll(server.train(model, 7, {kText}, true)).body, {2, 2, 2, 1});
    const Json hostile =
        server.post("save_weights", {{"model_id", model}, {"path", "../../x"}, {"seq_id", 8}});
    EXPECT_SAYS(server.result(hostile.at("request_id")).at("error").get<std::string>(), "letters, digits");
    const Json sampler =
        server.post("save_weights_for_sampler", {{"model_id", model}, {"path", "s"}, {"seq_id", 9}});
    EXPECT_EQ(server.result(sampler.at("request_id")).at("path"), "tinker://" + model + "/sampler_weights/s");
  }
  Server server({}, root.path());  // started again
  const std::string session = server.new_session();
  const Json loading = server.post(
      "load_weights", {{"session_id", session}, {"model_seq_id", 0}, {"path", path}, {"optimizer", true}});
  const std::string model = session + ":train:0";
  EXPECT_EQ(server.result(loading.at("request_id")),
            (Json{{"path", path}, {"model_id", model}, {"type", "load_weights"}}));
  server.train(model, 1, {{4, 5, 6}});
  server.step(model, 2);
  EXPECT_EQ(field(server.poll(server.train(model, 3, {kText}, true)).body, {2, 2, 2, 1}), expected);
  const std::string run = path.substr(9, path.find('/', 9) - 9);
  EXPECT_EQ(
      server.get("training_runs/" + run + "?access_scope=owned").at("last_checkpoint").at("tinker_path"),
      path);
  EXPECT_EQ(server.get("training_runs/" + run + "/checkpoints").at("checkpoints").size(), 2U);
  EXPECT_EQ(server.get("checkpoints?limit=1").at("cursor").at("total_count"), 2);
  EXPECT_EQ(server.post("weights_info", {{"tinker_path", path}}).at("lora_rank"), 4);
  const std::string weights = "tinker://" + run + "/sampler_weights/s";
  const std::string sampler =
      server
          .post("create_sampling_session",
                {{"session_id", session}, {"sampling_session_seq_id", 0}, {"model_path", weights}})
          .at("sampling_session_id");
  EXPECT_EQ(server.get("samplers/" + sampler).at("model_path"), weights);
  EXPECT_EQ(server.poll(server.post("asample", sample_request(sampler, 0)).at("request_id")).status, 200);
  EXPECT_EQ(server.send("DELETE", "training_runs/" + run + "/checkpoints/weights/step-1", "")->wait().status,
            204);
  EXPECT_EQ(server.get("training_runs/" + run + "/checkpoints").at("checkpoints").size(), 1U);
}

// A model that is created and one that is loaded: the order of sums shows in the norm of a step's gradient, and what waits
// for optim_step is kept over a save.
TEST(TinkerService, BinsAreForModelsOfEveryOrigin) {
  std::vector<double> norms[2];
  for (const bool in_bins : {false, true}) {
    TinkerOptions options;
    if (in_bins) options.datum_room = std::make_shared<DatumRoom>();
    const auto room = options.datum_room;
    Server server(options);
    const std::string session = server.new_session(), created = server.new_model(session);
    const std::vector<std::vector<std::int32_t>> datums = {
        kText, {4, 5, 6, 7}, {900, 17}, {8, 3, 44, 5, 6, 9}, {640, 1}};
    int seq = 0;
    const auto norm = [&](const std::string& model) {
      return server.result(server.step(model, ++seq))
          .at("metrics")
          .at("unclipped_grad_l2:mean")
          .get<double>();
    };
    server.train(created, ++seq, {kText});
    server.step(created, ++seq);
    server.train(created, ++seq, datums);
    const Json saved = server.post("save_weights", {{"model_id", created}, {"path", "w"}, {"seq_id", ++seq}});
    const std::string path = server.result(saved.at("request_id")).at("path");
    EXPECT_EQ(room && room->used() > 0, in_bins);
    norms[in_bins].push_back(norm(created));
    EXPECT_FALSE(room && room->used() > 0);
    const Json loading = server.post(
        "load_weights", {{"session_id", session}, {"model_seq_id", 1}, {"path", path}, {"optimizer", true}});
    server.result(loading.at("request_id"));
    const std::string loaded = session + ":train:1";
    seq = 0;
    server.train(loaded, ++seq, datums);
    norms[in_bins].push_back(norm(loaded));
  }
  EXPECT_EQ(norms[0][0], norms[0][1]);
  EXPECT_EQ(norms[1][0], norms[1][1]);
  EXPECT_NE(norms[0][0], norms[1][0]) << "the order of sums shows in no bit";
  EXPECT_NEAR(norms[0][0], norms[1][0], 1e-5 * norms[0][0]);
}

// What a stop would lose is written, and only that.
TEST(TinkerService, UpdatesAreSavedBeforeAStop) {
  Server server;
  const std::string session = server.new_session(), model = server.new_model(session);
  server.new_model(session, 1);  // nothing is done with it
  EXPECT_TRUE(server.autosave().empty());
  server.train(model, 1, {kText});
  server.step(model, 2);
  const std::string path = "tinker://" + model + "/weights/autosave";
  EXPECT_EQ(server.autosave(), std::vector<std::string>{path});
  EXPECT_EQ(server.get("training_runs/" + model).at("last_checkpoint").at("tinker_path"), path);
  const Json saved = server.post("save_weights", {{"model_id", model}, {"path", "own"}, {"seq_id", 3}});
  server.result(saved.at("request_id"));
  EXPECT_TRUE(server.autosave().empty());
}

TEST(TinkerService, WhatIsWrongIsToldInItsOwnForm) {
  Server server;
  const std::string session = server.new_session(), model = server.new_model(session);
  const auto says = [&](const std::string& path, const Json& body, int status) {
    const HttpAnswer answer = server.ask(path, body);
    EXPECT_EQ(answer.status, status) << path << answer.body;
    return base::parse_json(answer.body, path).at("detail").get<std::string>();
  };
  EXPECT_SAYS(says("create_session", {{"tag", 1}}, 400), "Did you mean 'tags'");
  EXPECT_SAYS(says("get_info", {{"model_id", "s1:train:0"}}, 404), "started again");
  EXPECT_SAYS(says("nothing", Json::object(), 404), "/api/v1/nothing");
  EXPECT_EQ(server.ask("optim_step", nullptr, "GET").status, 405);
  EXPECT_EQ(server.send("POST", "get_info", "{\"model_id\":")->wait().status, 400);
  EXPECT_EQ(server.send("POST", "forward_backward", "{}")->wait().status, 400);
  EXPECT_EQ(server.send("POST", "forward_backward", std::string(40, '\xFF'), "application/x-protobuf")
                ->wait()
                .status,
            400);
  // A body that is cut behind its numbers: its number is done, and the next one runs.
  const std::string body = request(model, 1, {kText}, false);
  const HttpAnswer cut =
      server.send("POST", "forward_backward", body.substr(0, body.size() - 30), "application/x-protobuf")
          ->wait();
  EXPECT_EQ(server.result(base::parse_json(cut.body, "").at("request_id")).at("category"), "user");
  server.train(model, 2, {{1, 2, 3}});
  EXPECT_EQ(server.result(server.step(model, 3)).at("metrics").at("step:max"), 1);
  const Json other = server.post(
      "create_model",
      {{"session_id", session}, {"model_seq_id", 5}, {"base_model", "x"}, {"lora_config", {{"rank", 4}}}});
  EXPECT_SAYS(server.result(other.at("request_id")).at("error").get<std::string>(), "hone/tiny");
  const std::string sampler =
      server
          .post("create_sampling_session",
                {{"session_id", session}, {"sampling_session_seq_id", 0}, {"base_model", "hone/tiny"}})
          .at("sampling_session_id");
  Json sample = sample_request(sampler, 0, 1, 1000);
  EXPECT_SAYS(says("asample", sample, 400), "maximum context length");
  sample = sample_request(sampler, 0);
  sample["record_stability_info"] = true;
  EXPECT_SAYS(says("asample", sample, 400), "importance_sampling");
}

// Requests of the loop with damage: each gets one answer, and the server goes on.
TEST(TinkerServiceFuzz, Requests) {
  Server server;
  const std::string session = server.new_session(), model = server.new_model(session);
  const std::string sampler =
      server
          .post("create_sampling_session",
                {{"session_id", session}, {"sampling_session_seq_id", 0}, {"base_model", "hone/tiny"}})
          .at("sampling_session_id");
  const std::vector<std::pair<std::string, Json>> requests = {
      {"asample", sample_request(sampler, 1)},
      {"optim_step", {{"model_id", model}, {"seq_id", 3}, {"adam_params", {{"learning_rate", 0.01}}}}},
      {"save_weights", {{"model_id", model}, {"path", "a"}, {"seq_id", 4}, {"ttl_seconds", 100}}},
      {"load_weights",
       {{"session_id", session}, {"model_seq_id", 1}, {"path", "tinker://a/weights/b"}, {"optimizer", true}}},
      {"create_model",
       {{"session_id", session},
        {"model_seq_id", 2},
        {"base_model", "hone/tiny"},
        {"lora_config", {{"rank", 2}}}}},
      {"retrieve_future", {{"request_id", sampler + ":1"}, {"allow_metadata_only", true}}}};
  std::vector<std::string> corpus;
  for (const auto& [path, body] : requests)
    corpus.push_back(base::dump_json({{"path", path}, {"body", body}}));
  std::vector<std::shared_ptr<AnsweredExchange>> held;
  fuzz::run(fuzz::seconds(2), corpus, fuzz::mutated_json_text, [&](const std::string& text) {
    Json one;
    try {
      one = base::parse_json(text, "fuzz");
    } catch (const base::UserError&) {
      return;
    }
    if (!one.is_object() || !one.contains("path") || !one.contains("body") || !one["path"].is_string())
      return;
    if (one["path"].get<std::string>().size() > 300) return;
    const auto exchange = server.send("POST", one["path"].get<std::string>(), base::dump_json(one["body"]));
    if (one["path"] == "retrieve_future") {
      held.push_back(exchange);
    } else {
      EXPECT_LT(exchange->wait().status, 500);
    }
  });
  EXPECT_EQ(server.ask("healthz", nullptr, "GET").status, 200);
  for (const auto& exchange : held) EXPECT_LE(exchange->answers(), 1U);
}

}  // namespace tinker_service_test
}  // namespace hone::serve
