// The Tinker API over a real compute thread, with exchanges in place of a network, and what its tests send.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"
#include "serve/scheduler.h"
#include "serve/tinker/api.h"
#include "serve/tinker/protobuf.h"

namespace hone::serve::tinker_server {

using namespace hone::test_tools;
using base::Json;

class AnsweredExchange : public Exchange {
 public:
  using Exchange::Exchange;
  int answer(HttpAnswer given) override {
    const std::lock_guard lock(mutex_);
    answers_.push_back(std::move(given));
    arrived_.notify_all();
    return answers_.back().status;
  }
  void begin_stream(int, std::string) override {}
  void part(std::string) override {}
  void end() override {}
  bool gone() const override { return false; }
  void when_gone(std::function<void()>) override {}

  HttpAnswer wait() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(60), [this] { return !answers_.empty(); }))
      throw std::runtime_error("no answer to " + request.path);
    return answers_.front();
  }
  std::size_t answers() const {
    const std::lock_guard lock(mutex_);
    return answers_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<HttpAnswer> answers_;
};

class Server {
 public:
  explicit Server(TinkerOptions options = {}, const fs::path& root = {}) {
    base::Json config = wide_config("qwen2");
    config["max_position_embeddings"] = 256;
    write_model(folder_.path() / "model", config);
    model_ = std::make_unique<model::CausalLm>(
        *model::open_weights(folder_.path() / "model"),
        model::DtypePolicy{.linear = at::kBFloat16, .residual = at::kBFloat16}, model::Storage::kPacked);
    scheduler_ = std::make_unique<Scheduler>(*model_, SchedulerOptions{});
    compute_ = std::make_unique<ScheduledCompute>(*scheduler_);
    options.model_name = "hone/tiny";
    options.root = root.empty() ? folder_.path() / "root" : root;
    options.stop_ids = {2};
    api_ = std::make_unique<TinkerApi>(*model_, *compute_, options);
  }
  ~Server() {
    scheduler_->stop();
    api_.reset();
  }

  std::shared_ptr<AnsweredExchange> send(const std::string& method, const std::string& path,
                                         const std::string& body,
                                         const std::string& type = "application/json") {
    HttpRequest request;
    request.method = method;
    const std::size_t query = path.find('?');
    request.path = "/api/v1/" + path.substr(0, query);
    if (query != std::string::npos) request.query = path.substr(query + 1);
    request.headers = {{"content-type", type}};
    request.body = body;
    auto exchange = std::make_shared<AnsweredExchange>(request);
    EXPECT_TRUE(api_->takes(exchange->request));
    api_->handle(exchange);
    return exchange;
  }
  HttpAnswer ask(const std::string& path, const Json& body, const std::string& method = "POST") {
    return send(method, path, body.is_null() ? "" : base::dump_json(body))->wait();
  }
  Json post(const std::string& path, const Json& body, int status = 200) {
    const HttpAnswer answer = ask(path, body);
    EXPECT_EQ(answer.status, status) << path << ": " << answer.body;
    return answer.body.empty() ? Json() : base::parse_json(answer.body, path);
  }
  Json get(const std::string& path) {
    const HttpAnswer answer = ask(path, nullptr, "GET");
    EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
    return base::parse_json(answer.body, path);
  }
  HttpAnswer poll(const std::string& id) {
    for (;;) {
      const HttpAnswer answer = ask("retrieve_future", {{"request_id", id}, {"allow_metadata_only", true}});
      if (answer.status != 408) return answer;
    }
  }
  Json result(const std::string& id) { return base::parse_json(poll(id).body, id); }

  std::string new_session() {
    return post("create_session",
                {{"tags", Json::array()}, {"sdk_version", "0.38.0"}, {"type", "create_session"}})
        .at("session_id");
  }
  std::string new_model(const std::string& session, int number = 0, bool unembed = true, int rank = 4) {
    const Json made =
        post("create_model", {{"session_id", session},
                              {"model_seq_id", number},
                              {"base_model", "hone/tiny"},
                              {"lora_config", {{"rank", rank}, {"seed", 0}, {"train_unembed", unembed}}},
                              {"type", "create_model"}});
    const std::string id = session + ":train:" + std::to_string(number);
    EXPECT_EQ(result(made.at("request_id")), (Json{{"model_id", id}, {"type", "create_model"}}));
    return id;
  }
  std::string step(const std::string& model, int seq) {
    return post("optim_step",
                {{"model_id", model}, {"seq_id", seq}, {"adam_params", {{"learning_rate", 0.01}}}})
        .at("request_id");
  }
  // By protobuf: cross_entropy of tokens on those that follow.
  std::string train(const std::string& model, int seq, const std::vector<std::vector<std::int32_t>>& datums,
                    bool forward_only = false);
  KeptFacts versions() const { return api_->versions(); }
  std::vector<std::string> autosave() { return api_->autosave().paths; }

 private:
  TempFolder folder_;
  std::unique_ptr<model::CausalLm> model_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ScheduledCompute> compute_;
  std::unique_ptr<TinkerApi> api_;
};

template <typename Number>
std::string bytes_of(const std::vector<Number>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number)};
}

inline std::string tensor(const std::string& bytes, std::uint64_t dtype) {
  ProtoWriter out;
  out.bytes(1, bytes);
  out.varint(3, dtype);
  return out.take();
}

inline std::string entry(const std::string& key, const std::string& value) {
  ProtoWriter out;
  out.bytes(1, key);
  out.bytes(2, value);
  return out.take();
}

inline std::string request(const std::string& model, int seq,
                           const std::vector<std::vector<std::int32_t>>& datums, bool forward_only) {
  ProtoWriter out;
  out.bytes(1, model);
  out.varint(2, static_cast<std::uint64_t>(seq));
  for (const auto& all : datums) {
    const std::vector<std::int32_t> tokens(all.begin(), all.end() - 1);
    const std::vector<std::int64_t> targets(all.begin() + 1, all.end());
    const std::vector<float> weights(targets.size(), 1);
    ProtoWriter text, chunk, datum;
    text.bytes(1, bytes_of(tokens));
    chunk.bytes(1, text.take());
    datum.bytes(1, chunk.take());
    datum.bytes(2, entry("target_tokens", tensor(bytes_of(targets), 2)));
    datum.bytes(2, entry("weights", tensor(bytes_of(weights), 1)));
    out.bytes(3, datum.take());
  }
  out.bytes(4, "cross_entropy");
  if (forward_only) out.varint(6, 1);
  return out.take();
}

inline std::string Server::train(const std::string& model, int seq,
                                 const std::vector<std::vector<std::int32_t>>& datums, bool forward_only) {
  const HttpAnswer answer =
      send("POST", "forward_backward", request(model, seq, datums, forward_only), "application/x-protobuf")
          ->wait();
  EXPECT_EQ(answer.status, 200) << answer.body;
  return base::parse_json(answer.body, "answer").at("request_id");
}

// The first bytes field `number` of a message; several are followed in turn.
inline std::string field(std::string bytes, const std::vector<std::uint32_t>& path) {
  for (const std::uint32_t number : path) {
    ProtoReader reader(bytes, "test");
    std::string found;
    while (reader.next()) {
      if (reader.field() == number && found.empty()) {
        found = reader.bytes();
      } else {
        reader.skip();
      }
    }
    bytes = found;
  }
  return bytes;
}

template <typename Number>
std::vector<Number> numbers(const std::string& bytes) {
  std::vector<Number> out(bytes.size() / sizeof(Number));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

inline const std::vector<std::int32_t> kText = {5, 900, 17, 2100, 44, 3, 1200, 8, 77, 640};

inline Json sample_request(const std::string& session, int seq, int count = 1, int tokens = 12) {
  return {{"sampling_session_id", session},
          {"seq_id", seq},
          {"num_samples", count},
          {"prompt", {{"chunks", Json::array({{{"tokens", kText}, {"type", "encoded_text"}}})}}},
          {"sampling_params", {{"max_tokens", tokens}, {"temperature", 1.0}, {"top_k", -1}, {"top_p", 1.0}}},
          {"type", "sample"}};
}

}  // namespace hone::serve::tinker_server
