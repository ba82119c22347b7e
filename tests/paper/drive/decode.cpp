#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <iostream>

#include "base/error.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "paper/drive/captures.h"
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

// A step of the sampler ends with the read of its logits, which its tokens are drawn from, or of the tokens that the card drew.
// steps: of a generation, whose first one reads the prompts; alone: of those, how many have neither a wait nor a copy of pageable memory after their first kernel.
Json steps_of(const std::string& order) {
  std::vector<std::string> steps(1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    steps.back() += order[i];
    if (order[i] != 'O' && order[i] != 'o') continue;
    if (order[i] == 'o' && i + 1 < order.size() && (order[i + 1] == 'w' || order[i + 1] == 'l')) ++i;
    steps.emplace_back();
  }
  const std::string after = steps.back();  // the last read
  steps.pop_back();
  std::int64_t alone = 0;
  for (std::string& step : steps) {
    step.pop_back();
    const std::size_t first = step.find('k');
    const std::size_t found = step.find_first_of("wIOo", first == std::string::npos ? 0 : first);
    alone += found == std::string::npos ? 1 : 0;
  }
  return {{"steps", steps.size()},
          {"alone", alone},
          {"last", steps.empty() ? "" : steps.back()},
          {"after", after}};
}

}  // namespace

int decode_on_card(const std::vector<std::string>& words, at::Device card) {
  const Wanted wanted = read(words);
  const model::DtypePolicy dtypes = {.linear = at::kBFloat16, .residual = at::kFloat};
  const auto source = model::open_weights(wanted.model);
  model::CausalLm model(*source, dtypes, model::Storage::kPacked, {}, card);
  model.join_linears();
  const PaperCounts few = generate_on_card(model, wanted, wanted.few);
  follow();
  const PaperCounts more = generate_on_card(model, wanted, wanted.more);
  const Json steps = steps_of(followed());
  const auto a_token = [&](std::int64_t PaperCounts::* count) {
    return static_cast<double>(more.*count - few.*count) / static_cast<double>(wanted.more - wanted.few);
  };
  Json line = {{"event", "decoded"},
               {"batch", wanted.batch},
               {"layers", model.config().num_hidden_layers},
               {"launches", a_token(&PaperCounts::launches)},
               {"graph_launches", a_token(&PaperCounts::graph_launches)},
               {"kernels_of_graphs", a_token(&PaperCounts::kernels_of_graphs)},
               {"library_calls", a_token(&PaperCounts::library_calls)},
               {"waits", a_token(&PaperCounts::waits)},
               {"late_waits", a_token(&PaperCounts::late_waits)},
               {"to_device", a_token(&PaperCounts::to_device)},
               {"to_host", a_token(&PaperCounts::to_host)},
               {"on_device", a_token(&PaperCounts::on_device)},
               {"bytes_to_host", a_token(&PaperCounts::bytes_to_host)},
               {"allocations", a_token(&PaperCounts::allocations)}};
  line["steps"] = steps["steps"];
  line["steps_alone"] = steps["alone"];
  if (wanted.names) line["order_of_the_last"] = steps["last"];
  line.update(allocator_peaks());
  if (wanted.names) line["names_of_a_generation"] = names_launched();
  std::cout << line.dump() << std::endl;
  return 0;
}

int capture_on_card(const std::vector<std::string>& words, at::Device card) {
  base::require(words.size() == 3, "paper_drive capture",
                "the library paper_captures, a model's folder and a batch");
  const auto library = open_captures(words[0]);
  const auto source = model::open_weights(words[1]);
  const model::CausalLm model(*source, {.linear = at::kBFloat16, .residual = at::kFloat},
                              model::Storage::kPacked, {}, card);
  const auto batch = static_cast<std::size_t>(std::stoll(words[2]));
  constexpr std::int64_t kRoom = 64;
  std::vector<model::KvCache> caches(batch);
  std::vector<model::KvCache*> pointers;
  for (model::KvCache& one : caches) {
    one.room = kRoom;
    pointers.push_back(&one);
  }
  model.step(std::vector<std::vector<std::int64_t>>(batch, {3, 4, 5, 6}), pointers, {});
  const std::vector<std::vector<std::int64_t>> token(batch, {7});
  struct Step {
    std::function<void()> run;
    static void call(void* user) { static_cast<Step*>(user)->run(); }
  } step{[&] { model.logits(model.step(token, pointers, {})); }};
  step.run();
  follow();
  step.run();
  const std::string order = followed();
  reset();
  const bool good = library.find<decltype(paper_capture_of)>("paper_capture_of")(Step::call, &step, 10) == 0;
  const PaperCounts found = counts();
  std::cout << Json{{"event", "captured"},
                    {"good", good},
                    {"kernels", std::count(order.begin(), order.end(), 'k')},
                    {"order", order},
                    {"captures", found.captures},
                    {"graph_launches", found.graph_launches},
                    {"kernels_of_graphs", found.kernels_of_graphs},
                    {"refused_in_capture", found.refused_in_capture}}
                   .dump()
            << std::endl;
  return 0;
}

}  // namespace hone::paper
