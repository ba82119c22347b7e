// The tiny Llama of the fixtures, served without a network.
#pragma once

#include <memory>

#include "model/config/rotations.h"
#include "model/files/weight_source.h"
#include "serve/fake_exchange.h"
#include "serve/openai/openai_api.h"
#include "serve/served.h"

namespace hone::serve {

struct TinyServed {
  explicit TinyServed(rollout::Drafts drafts = rollout::Drafts::kOff,
                      const rollout::GuessFunction* guess = nullptr)
      : scheduler(model,
                  {.engine = {.batch_size = 8, .prefill_tokens = 64, .drafts = drafts, .guess = guess}}) {}

  static std::string folder() { return std::string(HONE_FIXTURES) + "/parity/tiny_llama"; }

  model::CausalLm model{*model::open_weights(folder()), {}};
  text::Tokenizer tokenizer = text::Tokenizer::from_folder(folder());
  text::ChatTemplate chat{tokenizer.chat_templates().main.value_or(*tokenizer.chat_template()),
                          tokenizer.special(), "the fixture"};
  Weights weights{"tiny"};
  Metrics metrics;
  std::unique_ptr<TaskThread> background = std::make_unique<TaskThread>();
  Scheduler scheduler;
  Served served{.model = model,
                .tokenizer = tokenizer,
                .chat_template = &chat,
                .stop_ids = model.config().eos_token_ids,
                .max_length = model::longest_generated(model.config()),
                .fingerprint = "test",
                .root = "tiny",
                .weights = weights,
                .scheduler = scheduler,
                .background = *background,
                .metrics = metrics};
  openai::OpenAiApi api{served};

  ~TinyServed() {
    scheduler.stop();
    background.reset();
  }

  std::shared_ptr<FakeExchange> ask(const std::string& path, const base::Json& body) {
    auto exchange = std::make_shared<FakeExchange>(asked("POST", path, base::dump_json(body)));
    api.handle(exchange);
    return exchange;
  }
};

}  // namespace hone::serve
