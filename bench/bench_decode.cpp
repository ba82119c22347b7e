// One decode step: a new token for each of B sequences that hold `context` tokens, from ids to the next ids.
// With --generate: whole completions through rollout::generate, for bench/decode_beside.py.
//
// usage: bench_decode [--model FOLDER | --shapes q05b] [--batch 1,2,4,8,16] [--context 64,256,512]
//                     [--most_tokens 4096]
//                     [--generate NEW_TOKENS --prompt 64] [--rollout NEW_TOKENS --prompt 512] [--lora RANK]
//                     [--storage packed|plain] [--base nf4|int8|blocks] [--milliseconds 400] [--threads 2]
//                     [--instructions avx512_bf16] [--json FILE] [--quick]
// With --rollout: steps of a sampler as training has it, --batch samples of one prompt that they share, at
// temperature 1 with log-probabilities and entropies. --lora: on every linear, in all three.
// Contexts with more than --most_tokens tokens in the whole batch are left out: filling them takes longer
// than measuring.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <span>

#include "adapters/lora.h"
#include "bench/measure.h"
#include "bench/open.h"
#include "bench/probe.h"
#include "bench/work.h"
#include "rollout/engine.h"
#include "rollout/generate.h"
#include "rollout/sampler.h"

namespace hone::bench {

namespace {

constexpr std::int64_t kPrefill = 1024;  // tokens of one forward while contexts are filled

struct Result {
  std::int64_t batch = 0, context = 0;
  Timing step, logits, sample, sample_top_p;  // sample: greedy
  double bytes = 0, flop = 0;
};

// The larger of what reading every weight once and what multiplying them takes; the latter wins from batch 12
// or so.
double limit_seconds(const Result& r, const Rates& rates) {
  return std::max(r.bytes / rates.read_gbs, r.flop / rates.bf16_gflops) / 1e9;
}

// What a step reads of the weights: all that is held but a head's own embedding.
double weight_bytes(const model::CausalLm& model) {
  const model::ModelConfig& config = model.config();
  const double embedding = config.tie_word_embeddings ? 0 : 2 * head_weights(config);
  return static_cast<double>(model.parameter_bytes()) - embedding;
}

class Decoder {
 public:
  Decoder(const model::CausalLm& model, std::size_t sequences) : model_(model), caches_(sequences) {}

  // The first `batch` sequences hold `context` - 1 tokens afterwards.
  void fill(std::int64_t batch, std::int64_t context) {
    std::vector<std::vector<std::int64_t>> ids;
    std::vector<model::KvCache*> caches;
    std::int64_t joined = 0;
    const auto flush = [&] {
      if (!ids.empty()) model_.step(ids, caches, {});
      ids.clear();
      caches.clear();
      joined = 0;
    };
    for (std::int64_t i = 0; i < batch; ++i) {
      model::KvCache& cache = caches_[static_cast<std::size_t>(i)];
      const std::int64_t missing = context - 1 - cache.length;
      if (missing <= 0) continue;
      if (joined + missing > kPrefill) flush();
      ids.push_back(some_ids(model_.config(), missing, 1000 * i + cache.length));
      caches.push_back(&cache);
      joined += missing;
    }
    flush();
  }

  Result measure_step(std::int64_t batch, std::int64_t context, const Effort& effort) {
    std::vector<model::KvCache*> caches;
    std::vector<std::vector<std::int64_t>> ids;
    for (std::int64_t i = 0; i < batch; ++i) {
      caches.push_back(&caches_[static_cast<std::size_t>(i)]);
      ids.push_back(some_ids(model_.config(), 1, i));
    }
    const auto forget = [&] {
      for (model::KvCache* cache : caches) cache->truncate(context - 1);
    };
    at::Tensor hidden, logits;
    Result out{.batch = batch, .context = context};
    // The head's bytes pass by between two steps, as they do in a real one.
    out.step = measure([&] { hidden = model_.step(ids, caches, {}); }, effort,
                       [&] {
                         forget();
                         if (hidden.defined()) logits = model_.logits(hidden);
                       });
    forget();
    out.logits = measure([&] { logits = model_.logits(hidden); },
                         {.seconds = effort.seconds / 2, .at_least = effort.at_least}, flush_caches);
    const auto draw_all = [&](const rollout::SamplerOptions& options) {
      const Effort less{.seconds = effort.seconds / 4, .at_least = effort.at_least};
      const std::span<const float> scores(logits.const_data_ptr<float>(),
                                          static_cast<std::size_t>(logits.numel()));
      const auto width = static_cast<std::size_t>(logits.size(1));
      return measure(
          [&] {
            for (std::size_t i = 0; i < static_cast<std::size_t>(batch); ++i) {
              sampler_.draw(scores.subspan(i * width, width), options, 0.5);
            }
          },
          less);
    };
    out.sample = draw_all({});
    out.sample_top_p = draw_all({.temperature = 1, .top_p = 0.9});
    const model::ModelConfig& config = model_.config();
    out.bytes = weight_bytes(model_) + kv_bytes_per_token(config, 2) * static_cast<double>(batch * context);
    out.flop = 2 * (layer_weights(config) + head_weights(config)) * static_cast<double>(batch);
    return out;
  }

 private:
  const model::CausalLm& model_;
  std::vector<model::KvCache> caches_;
  rollout::Sampler sampler_;
};

double total(const Result& r) {
  return r.step.best + r.logits.best + r.sample.best;
}

base::Json to_json(const std::vector<Result>& results, const Rates& rates) {
  base::Json out = {{"rates", bench::to_json(rates)}, {"steps", base::Json::array()}};
  for (const Result& r : results) {
    out["steps"].push_back({{"batch", r.batch},
                            {"context", r.context},
                            {"step_s", r.step.best},
                            {"step_median_s", r.step.median},
                            {"logits_s", r.logits.best},
                            {"sample_s", r.sample.best},
                            {"sample_top_p_s", r.sample_top_p.best},
                            {"bytes", r.bytes},
                            {"flop", r.flop},
                            {"limit_s", limit_seconds(r, rates)}});
  }
  return out;
}

int run_steps(const Arguments& arguments, const model::CausalLm& model, const Rates& before) {
  const bool quick = arguments.flag("quick");
  std::vector<std::int64_t> batches = arguments.numbers(
      "batch", quick ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{1, 2, 4, 8, 16});
  std::vector<std::int64_t> contexts = arguments.numbers(
      "context", quick ? std::vector<std::int64_t>{64} : std::vector<std::int64_t>{64, 256, 512});
  std::sort(batches.begin(), batches.end());
  std::sort(contexts.begin(), contexts.end());  // caches only grow
  const Effort effort =
      quick ? Effort{.seconds = 0.01, .at_least = 1, .at_most = 2}
            : Effort{.seconds = 0.001 * static_cast<double>(arguments.number("milliseconds", 400)),
                     .at_least = 5};
  const std::int64_t most = arguments.number("most_tokens", 4096);

  Decoder decoder(model, static_cast<std::size_t>(batches.back()));
  std::vector<Result> results;
  for (const std::int64_t context : contexts) {
    for (const std::int64_t batch : batches) {
      if (batch * context > most) continue;
      std::cerr << "\r\x1b[Kcontext " << context << ", batch " << batch << std::flush;
      decoder.fill(batch, context);
      results.push_back(decoder.measure_step(batch, context, effort));
    }
  }
  std::cerr << "\r\x1b[K" << std::flush;
  const Rates rates = better_of(before, probe(model.config(), quick));
  std::cout << name_of(arguments) << ", " << arguments.text("base", "bf16") << ", "
            << (model.packed() ? "packed" : "plain") << " weights, " << arguments.number("threads", 2)
            << " threads; " << sentence(rates) << ".\n\n";
  Table table({"batch", "context", "layers ms", "logits ms", "greedy ms", "top-p ms", "ms a step",
               "ms a token", "limit ms", "share"});
  for (const Result& r : results) {
    const double limit = limit_seconds(r, rates);
    table.add({std::to_string(r.batch), std::to_string(r.context), fixed(1e3 * r.step.best, 2),
               fixed(1e3 * r.logits.best, 2), fixed(1e3 * r.sample.best, 2),
               fixed(1e3 * r.sample_top_p.best, 2), fixed(1e3 * total(r), 2),
               fixed(1e3 * total(r) / static_cast<double>(r.batch), 2), fixed(1e3 * limit, 2),
               percent(limit / total(r))});
  }
  table.print();
  write_json(arguments.text("json", ""), to_json(results, rates));
  return 0;
}

// Seconds a decode step of whole completions: N tokens less 1 token, so that prefill and loading are not in
// it.
int run_generate(const Arguments& arguments, const model::CausalLm& model) {
  const std::int64_t tokens = arguments.number("generate", 64), prompt = arguments.number("prompt", 64);
  base::Json out = {{"prompt", prompt}, {"new_tokens", tokens}, {"batches", base::Json::array()}};
  for (const std::int64_t batch : arguments.numbers("batch", {1, 8})) {
    std::vector<std::vector<std::int32_t>> prompts;
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto ids = some_ids(model.config(), prompt, 1000 * i);
      prompts.emplace_back(ids.begin(), ids.end());
    }
    const auto seconds = [&](std::int64_t count) {
      const double start = now();
      rollout::GenerateOptions options;
      options.max_new_tokens = count;
      options.batch_size = batch;
      options.logprobs = false;
      rollout::generate(model, prompts, options);
      return now() - start;
    };
    seconds(2);
    const double one = seconds(1), all = seconds(tokens);
    const double each = (all - one) / static_cast<double>(tokens - 1);
    std::cerr << "batch " << batch << ": " << fixed(1e3 * each, 2) << " ms a step\n";
    out["batches"].push_back({{"batch", batch}, {"prefill_s", one}, {"step_s", each}});
  }
  std::cout << "RESULT " << base::dump_json(out) << '\n';
  write_json(arguments.text("json", ""), out);
  return 0;
}

// Seconds of a step of Engine::advance after the one that reads the prompt.
int run_rollout(const Arguments& arguments, const model::CausalLm& model) {
  const std::int64_t tokens = arguments.number("rollout", 64), prompt = arguments.number("prompt", 512);
  const bool quick = arguments.flag("quick");  // the clock alone
  const Rates before = quick ? Rates() : probe(model.config(), false);
  Table table({"samples", "prompt", "best ms", "median ms", "limit ms", "share", "median's"});
  base::Json out = {{"prompt", prompt}, {"new_tokens", tokens}, {"batches", base::Json::array()}};
  for (const std::int64_t batch : arguments.numbers("batch", {8, 16})) {
    const auto some = some_ids(model.config(), prompt);
    const std::vector<std::int32_t> ids(some.begin(), some.end());
    rollout::RequestOptions options;
    options.max_new_tokens = tokens + 1;
    options.entropies = options.share_prompt = true;
    options.sampler.temperature = 1;
    std::vector<double> seconds;
    for (int repetition = 0; repetition < 3; ++repetition) {
      rollout::Engine engine(model, {.batch_size = batch});
      engine.add({.ids = ids, .options = options, .samples = batch});
      engine.advance();
      for (std::int64_t i = 0; i < tokens; ++i) {
        const double start = now();
        engine.advance();
        seconds.push_back(now() - start);
      }
    }
    std::sort(seconds.begin(), seconds.end());
    const double best = seconds.front(), median = seconds[seconds.size() / 2];
    Result r{.batch = batch};
    const double own = static_cast<double>(batch * tokens) / 2, read = static_cast<double>(prompt) + own;
    r.bytes = weight_bytes(model) + kv_bytes_per_token(model.config(), 2) * read;
    r.flop = 2 * (layer_weights(model.config()) + head_weights(model.config())) * static_cast<double>(batch);
    const double limit = quick ? 0 : limit_seconds(r, better_of(before, probe(model.config(), false)));
    table.add({std::to_string(batch), std::to_string(prompt), fixed(1e3 * best, 2), fixed(1e3 * median, 2),
               fixed(1e3 * limit, 2), percent(limit / best), percent(limit / median)});
    out["batches"].push_back({{"batch", batch}, {"best_s", best}, {"median_s", median}, {"limit_s", limit}});
  }
  table.print();
  write_json(arguments.text("json", ""), out);
  return 0;
}

// PEFT's all-linear, with sides that are not zero.
adapters::Adapter attach_lora(model::CausalLm& model, std::int64_t rank) {
  adapters::LoraConfig lora;
  lora.r = rank;
  lora.target_modules = {"all-linear"};
  lora.target_is_regex = true;
  lora.init = adapters::LoraInit::kFalse;
  return adapters::Adapter::attach(model, lora, 7);
}

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv,
                            with_common({"batch", "context", "most_tokens", "generate", "rollout", "lora",
                                         "prompt", "storage", "base", "milliseconds"}),
                            common_flags());
  prepare_process(arguments);
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // as the program does: logits keep their pages from step to step
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
  const at::NoGradGuard no_grad;
  const auto source = open_source(arguments);
  const bool generate = arguments.flag("generate"), rollouts = arguments.flag("rollout");
  const Rates before = generate || rollouts ? Rates() : probe(source->config(), arguments.flag("quick"));
  const bool packed = arguments.text("storage", "packed") == "packed";
  model::CausalLm model = open_model(*source, packed ? model::Storage::kPacked : model::Storage::kPlain,
                                     arguments.text("base", ""));
  std::optional<adapters::Adapter> adapter;
  if (const std::int64_t rank = arguments.number("lora", 0); rank > 0) adapter = attach_lora(model, rank);
  if (rollouts) return run_rollout(arguments, model);
  return generate ? run_generate(arguments, model) : run_steps(arguments, model, before);
}

}  // namespace

}  // namespace hone::bench

int main(int argc, char** argv) {
  return hone::bench::run_main(&hone::bench::run, argc, argv);
}
