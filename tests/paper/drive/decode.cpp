#include <ATen/ATen.h>

#include <iostream>

#include "base/error.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "paper/drive/card.h"
#include "paper/drive/modes.h"
#include "rollout/generate.h"

namespace hone::paper {
namespace {

using Ids = std::vector<std::int32_t>;

struct Wanted {
  std::string model;
  std::int64_t batch = 1, prompt = 60, few = 8, more = 24;
  bool names = false;
};

Wanted read(const std::vector<std::string>& words) {
  base::require(words.size() >= 2, "paper_drive decode", "a model's folder and a batch");
  Wanted out = {.model = words[0], .batch = std::stoll(words[1])};
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "--names") {
      out.names = true;
    } else if (words[i] == "--prompt" && i + 1 < words.size()) {
      out.prompt = std::stoll(words[++i]);
    } else if (words[i] == "--tokens" && i + 1 < words.size()) {
      const std::string& both = words[++i];
      out.few = std::stoll(both);
      out.more = std::stoll(both.substr(both.find(',') + 1));
    } else {
      base::require(false, "paper_drive decode", "a known word, not " + words[i]);
    }
  }
  base::require(out.more > out.few && out.few > 0, "--tokens", "two numbers, the second larger");
  return out;
}

// Of a generation of so many tokens by every sequence; none ends early, since no token stops one.
PaperCounts generate_on_card(const model::CausalLm& model, const Wanted& wanted, std::int64_t tokens) {
  std::vector<Ids> prompts;
  for (std::int64_t i = 0; i < wanted.batch; ++i) {
    prompts.emplace_back(static_cast<std::size_t>(wanted.prompt), static_cast<std::int32_t>(3 + i));
  }
  rollout::GenerateOptions options;
  options.batch_size = wanted.batch;
  options.max_new_tokens = tokens;
  options.sampler.temperature = 1;
  reset();
  rollout::generate(model, prompts, options);
  return counts();
}

}  // namespace

int decode_on_card(const std::vector<std::string>& words, at::Device card) {
  const Wanted wanted = read(words);
  const model::DtypePolicy dtypes = {.linear = at::kBFloat16, .residual = at::kFloat};
  const auto source = model::open_weights(wanted.model);
  const model::CausalLm model(*source, dtypes, model::Storage::kPacked, {}, card);
  const PaperCounts few = generate_on_card(model, wanted, wanted.few);
  const PaperCounts more = generate_on_card(model, wanted, wanted.more);
  const auto a_token = [&](std::int64_t PaperCounts::* count) {
    return static_cast<double>(more.*count - few.*count) / static_cast<double>(wanted.more - wanted.few);
  };
  Json line = {{"event", "decoded"},
               {"batch", wanted.batch},
               {"layers", model.config().num_hidden_layers},
               {"launches", a_token(&PaperCounts::launches)},
               {"library_calls", a_token(&PaperCounts::library_calls)},
               {"waits", a_token(&PaperCounts::waits)},
               {"to_device", a_token(&PaperCounts::to_device)},
               {"to_host", a_token(&PaperCounts::to_host)},
               {"on_device", a_token(&PaperCounts::on_device)},
               {"bytes_to_host", a_token(&PaperCounts::bytes_to_host)},
               {"allocations", a_token(&PaperCounts::allocations)}};
  line.update(allocator_peaks());
  if (wanted.names) line["names_of_a_generation"] = names_launched();
  std::cout << line.dump() << std::endl;
  return 0;
}

}  // namespace hone::paper
